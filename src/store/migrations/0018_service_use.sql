-- How much each service was used. The key is its id, or config:NAME for one of config.toml.

CREATE TABLE service_use (
	service TEXT PRIMARY KEY,
	calls INTEGER NOT NULL,
	denied INTEGER NOT NULL,
	sent_bytes INTEGER NOT NULL,
	received_bytes INTEGER NOT NULL,
	last_ms INTEGER NOT NULL
);
