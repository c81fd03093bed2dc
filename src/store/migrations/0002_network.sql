-- A sandbox's own part of its network policy, and what was made of it when it started, as name=value
-- lines; '' for one without a network.
ALTER TABLE sandboxes ADD COLUMN network_list TEXT NOT NULL DEFAULT '';

-- Columns called *_list that are NULL mean "no limit", '' means "nothing".
CREATE TABLE environments (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	level TEXT NOT NULL,
	mode TEXT NOT NULL,
	domains_list TEXT,
	include_default BIGINT NOT NULL,
	denied_domains_list TEXT NOT NULL,
	ports_list TEXT,
	cidrs_list TEXT NOT NULL,
	denied_cidrs_list TEXT NOT NULL,
	egress_bytes BIGINT NOT NULL,
	egress_rate BIGINT NOT NULL,
	visibility TEXT NOT NULL,
	owner TEXT,
	team TEXT,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL
);

-- Values are sealed by the daemon before they come here.
CREATE TABLE environment_variables (
	environment_id TEXT NOT NULL REFERENCES environments (id) ON DELETE CASCADE,
	name TEXT NOT NULL,
	sealed TEXT NOT NULL,
	PRIMARY KEY (environment_id, name)
);
