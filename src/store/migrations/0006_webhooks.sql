-- Who is told what happened, and what they were told. Secrets are sealed by the daemon.

CREATE TABLE webhooks (
	id TEXT PRIMARY KEY,
	url TEXT NOT NULL,
	events_list TEXT NOT NULL,
	about TEXT,
	sealed TEXT NOT NULL,
	sealed_before TEXT,
	before_until_ms BIGINT NOT NULL,
	owner_id TEXT NOT NULL,
	team_id TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	after_seq BIGINT NOT NULL
);
CREATE INDEX webhooks_by_team ON webhooks (team_id, id);

-- One event is one delivery to one webhook, however often it is tried or looked at.
CREATE TABLE deliveries (
	id TEXT PRIMARY KEY,
	webhook_id TEXT NOT NULL REFERENCES webhooks (id) ON DELETE CASCADE,
	event_seq BIGINT NOT NULL,
	kind TEXT NOT NULL,
	subject TEXT NOT NULL,
	payload TEXT NOT NULL,
	state TEXT NOT NULL,
	attempts BIGINT NOT NULL,
	next_ms BIGINT NOT NULL,
	last_status BIGINT NOT NULL,
	last_error TEXT,
	created_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	UNIQUE (webhook_id, event_seq)
);
CREATE INDEX deliveries_pending ON deliveries (webhook_id, subject, event_seq) WHERE state = 'pending';
CREATE INDEX deliveries_by_time ON deliveries (webhook_id, created_ms);
