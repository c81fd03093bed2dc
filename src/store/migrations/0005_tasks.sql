-- Tasks, their runs, the journal of each run, and what they leave.

CREATE TABLE tasks (
	id TEXT PRIMARY KEY,
	title TEXT NOT NULL,
	instruction TEXT NOT NULL,
	agent TEXT NOT NULL,
	origin TEXT,
	choices TEXT NOT NULL,
	labels_list TEXT NOT NULL,
	owner_id TEXT NOT NULL,
	team_id TEXT NOT NULL,
	visibility TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	run_count BIGINT NOT NULL,
	run_id TEXT
);
CREATE INDEX tasks_by_team ON tasks (team_id, id);

CREATE TABLE runs (
	id TEXT PRIMARY KEY,
	task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
	team_id TEXT NOT NULL,
	number BIGINT NOT NULL,
	priority BIGINT NOT NULL,
	state TEXT NOT NULL,
	step TEXT NOT NULL,
	end_reason TEXT,
	detail TEXT,
	sandbox_id TEXT,
	exec_id TEXT,
	token_id TEXT,
	parent_id TEXT,
	rights_list TEXT NOT NULL,
	budget BIGINT,
	timeout_ms BIGINT NOT NULL,
	idle_ms BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	started_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	exit_code BIGINT,
	exit_signal BIGINT,
	input_tokens BIGINT NOT NULL,
	output_tokens BIGINT NOT NULL,
	meters_list TEXT NOT NULL,
	cost BIGINT NOT NULL,
	log TEXT,
	has_log_file BIGINT NOT NULL,
	output TEXT,
	UNIQUE (task_id, number)
);
-- What a start of the daemon looks for; those that are over do not make it longer.
CREATE INDEX runs_unfinished ON runs (id) WHERE ended_ms = 0;

-- The journal: written before a step begins and after it ended.
CREATE TABLE run_steps (
	run_id TEXT NOT NULL REFERENCES runs (id) ON DELETE CASCADE,
	position BIGINT NOT NULL,
	step TEXT NOT NULL,
	status TEXT NOT NULL,
	detail TEXT,
	attempts BIGINT NOT NULL,
	started_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	PRIMARY KEY (run_id, position)
);

-- The files are in a folder of their own, named by id.
CREATE TABLE artifacts (
	id TEXT PRIMARY KEY,
	task_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
	run_id TEXT,
	name TEXT NOT NULL,
	content_type TEXT NOT NULL,
	bytes BIGINT NOT NULL,
	sha256 TEXT NOT NULL,
	created_ms BIGINT NOT NULL
);
CREATE INDEX artifacts_by_task ON artifacts (task_id, id);
