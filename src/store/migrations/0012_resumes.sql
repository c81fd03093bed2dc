-- What is left of the files of a run, for a later one to go on with: a sandbox that is stopped.

ALTER TABLE runs ADD COLUMN resume_from TEXT;
ALTER TABLE runs ADD COLUMN keeps BIGINT NOT NULL DEFAULT 0;

CREATE TABLE resumes (
	run_id TEXT PRIMARY KEY REFERENCES runs (id) ON DELETE CASCADE,
	team_id TEXT NOT NULL,
	sandbox_id TEXT NOT NULL,
	runtime TEXT NOT NULL,
	image TEXT NOT NULL,
	branch TEXT,
	parent_run_id TEXT,
	fingerprint TEXT NOT NULL,
	bytes BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	-- The run that goes on with them: from then on they are that one's.
	used_by TEXT
);
CREATE INDEX resumes_by_sandbox ON resumes (sandbox_id);
CREATE INDEX resumes_by_age ON resumes (expires_ms, run_id);

CREATE INDEX artifacts_by_age ON artifacts (created_ms, id);
