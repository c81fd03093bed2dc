-- Who there is and what was done. Everything that was there before belongs to the team and the
-- principal that every store has.

CREATE TABLE teams (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	default_scopes TEXT,
	trust_floor TEXT,
	created_ms BIGINT NOT NULL
);
INSERT INTO teams (id, name, created_ms) VALUES ('tm_00000000000000000000', 'default', 0);

CREATE TABLE principals (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	kind TEXT NOT NULL,
	uid BIGINT UNIQUE,
	created_ms BIGINT NOT NULL
);
INSERT INTO principals (id, name, kind, created_ms)
	VALUES ('pr_00000000000000000000', 'operator', 'person', 0);

CREATE TABLE memberships (
	team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
	principal_id TEXT NOT NULL REFERENCES principals (id) ON DELETE CASCADE,
	role TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	PRIMARY KEY (team_id, principal_id)
);
CREATE INDEX memberships_by_principal ON memberships (principal_id);
INSERT INTO memberships (team_id, principal_id, role, created_ms)
	VALUES ('tm_00000000000000000000', 'pr_00000000000000000000', 'admin', 0);

-- API keys, and the tokens of runs (run_id). Rows stay after a revocation: the audit names them.
-- spent counts what all its descendants spent, too; budget NULL is no limit.
CREATE TABLE credentials (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	principal_id TEXT NOT NULL REFERENCES principals (id),
	team_id TEXT NOT NULL REFERENCES teams (id),
	is_operator BIGINT NOT NULL,
	scopes TEXT NOT NULL,
	secret_hash TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	revoked_ms BIGINT NOT NULL,
	last_used_ms BIGINT NOT NULL,
	parent_id TEXT REFERENCES credentials (id),
	chain TEXT,
	run_id TEXT,
	rights_list TEXT NOT NULL,
	budget BIGINT,
	spent BIGINT NOT NULL
);
CREATE INDEX credentials_by_team ON credentials (team_id, id);
CREATE INDEX credentials_by_principal ON credentials (principal_id, id);
CREATE INDEX credentials_by_parent ON credentials (parent_id);
CREATE UNIQUE INDEX credentials_by_run ON credentials (run_id);

-- Public keys whose signatures on agent manifests are trusted, by one team or (NULL) by all.
CREATE TABLE trusted_keys (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	public_key TEXT NOT NULL UNIQUE,
	team_id TEXT REFERENCES teams (id) ON DELETE CASCADE,
	created_ms BIGINT NOT NULL
);

-- Append-only. audit_head is the newest row's number and hash, written with it: without it, rows
-- taken from the end would not be missed.
CREATE TABLE audit (
	seq BIGINT PRIMARY KEY,
	time_ms BIGINT NOT NULL,
	actor_id TEXT,
	actor_name TEXT,
	team_id TEXT,
	credential_id TEXT,
	chain TEXT,
	source TEXT,
	action TEXT NOT NULL,
	object TEXT,
	verdict TEXT NOT NULL,
	rule TEXT NOT NULL,
	count BIGINT NOT NULL,
	hash TEXT NOT NULL
);
CREATE INDEX audit_by_team ON audit (team_id, seq);
CREATE TABLE audit_head (
	one BIGINT PRIMARY KEY,
	seq BIGINT NOT NULL,
	hash TEXT NOT NULL
);

ALTER TABLE sandboxes ADD COLUMN owner_id TEXT NOT NULL DEFAULT 'pr_00000000000000000000';
ALTER TABLE sandboxes ADD COLUMN team_id TEXT NOT NULL DEFAULT 'tm_00000000000000000000';
ALTER TABLE sandboxes ADD COLUMN visibility TEXT NOT NULL DEFAULT 'team';
ALTER TABLE images ADD COLUMN owner_id TEXT NOT NULL DEFAULT 'pr_00000000000000000000';
ALTER TABLE images ADD COLUMN team_id TEXT NOT NULL DEFAULT 'tm_00000000000000000000';
-- An event is seen by whoever saw its sandbox then; NULL: it is about none, and the machine's own.
ALTER TABLE events ADD COLUMN owner_id TEXT;
ALTER TABLE events ADD COLUMN team_id TEXT;
ALTER TABLE events ADD COLUMN visibility TEXT;
UPDATE events SET owner_id = 'pr_00000000000000000000', team_id = 'tm_00000000000000000000',
	visibility = 'team' WHERE sandbox_id IS NOT NULL;
