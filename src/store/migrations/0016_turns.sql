-- What the agent of a session was asked, and what came of it. A session is a task of its own kind.

CREATE TABLE turns (
	id TEXT PRIMARY KEY,
	session_id TEXT NOT NULL REFERENCES tasks (id) ON DELETE CASCADE,
	run_id TEXT NOT NULL,
	number BIGINT NOT NULL,
	message_id TEXT,
	label TEXT,
	prompt TEXT NOT NULL,
	output_schema TEXT,
	timeout_ms BIGINT NOT NULL,
	is_steer BIGINT NOT NULL,
	state TEXT NOT NULL,
	end_reason TEXT,
	detail TEXT,
	stop_reason TEXT,
	answer TEXT,
	output TEXT,
	attempts BIGINT NOT NULL,
	is_nudged BIGINT NOT NULL,
	is_repaired BIGINT NOT NULL,
	input_tokens BIGINT NOT NULL,
	output_tokens BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	started_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	UNIQUE (session_id, number),
	-- The same message comes once, however often it is sent.
	UNIQUE (session_id, message_id)
);
-- What a start of the daemon looks for.
CREATE INDEX turns_open ON turns (session_id, number) WHERE ended_ms = 0;
