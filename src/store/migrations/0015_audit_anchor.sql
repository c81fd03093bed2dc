-- Where the audit begins once old rows were removed: the number and hash of the newest of these,
-- sealed with the node's secret, so that nobody else can move it.
CREATE TABLE audit_anchor (
	one BIGINT PRIMARY KEY,
	seq BIGINT NOT NULL,
	hash TEXT NOT NULL,
	seal TEXT NOT NULL
);
