-- The number of an event is the key of its row, and no second tree beside it. INTEGER is the word
-- that makes it so; BIGINT was one more index to write for every event.

CREATE TABLE numbered_events (
	seq INTEGER PRIMARY KEY,
	sandbox_id TEXT,
	sandbox_seq BIGINT NOT NULL,
	time_ms BIGINT NOT NULL,
	kind TEXT NOT NULL,
	data TEXT,
	owner_id TEXT,
	team_id TEXT,
	visibility TEXT
);
INSERT INTO numbered_events (seq, sandbox_id, sandbox_seq, time_ms, kind, data, owner_id, team_id,
		visibility)
	SELECT seq, sandbox_id, sandbox_seq, time_ms, kind, data, owner_id, team_id, visibility
	FROM events ORDER BY seq;
DROP TABLE events;
ALTER TABLE numbered_events RENAME TO events;
CREATE UNIQUE INDEX events_by_sandbox ON events (sandbox_id, sandbox_seq);
