-- How much runs may cost, by what they belong to. What is spent is summed up from the runs.
CREATE TABLE budgets (
	id TEXT PRIMARY KEY,
	kind TEXT NOT NULL,
	subject TEXT NOT NULL,
	team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
	amount BIGINT NOT NULL,
	period TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	told BIGINT NOT NULL,
	told_ms BIGINT NOT NULL,
	UNIQUE (kind, subject, team_id)
);
CREATE INDEX runs_by_team ON runs (team_id, ended_ms);
