-- Where the talk with the agent of a run is, for the daemon that takes it up again.

CREATE TABLE run_agents (
	run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
	state TEXT NOT NULL
);
