-- What a run did with its repository: where its branch began, and its pull request (JSON).

CREATE TABLE run_git (
	run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
	state TEXT NOT NULL
);
