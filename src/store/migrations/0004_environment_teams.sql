-- An environment's name is its team's own, as a sandbox's is. Both tables are made anew, because a
-- constraint cannot be dropped; the variables first, so that nothing is deleted with its parent.
CREATE TABLE team_environments (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
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
	owner TEXT NOT NULL,
	team TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	UNIQUE (team, name)
);
INSERT INTO team_environments (id, name, level, mode, domains_list, include_default,
	denied_domains_list, ports_list, cidrs_list, denied_cidrs_list, egress_bytes, egress_rate,
	visibility, owner, team, created_ms, updated_ms)
SELECT id, name, level, mode, domains_list, include_default, denied_domains_list, ports_list,
	cidrs_list, denied_cidrs_list, egress_bytes, egress_rate, visibility,
	coalesce(owner, 'pr_00000000000000000000'), coalesce(team, 'tm_00000000000000000000'),
	created_ms, updated_ms
FROM environments;

CREATE TABLE sealed_variables (
	environment_id TEXT NOT NULL REFERENCES team_environments (id) ON DELETE CASCADE,
	name TEXT NOT NULL,
	sealed TEXT NOT NULL,
	PRIMARY KEY (environment_id, name)
);
INSERT INTO sealed_variables (environment_id, name, sealed)
SELECT environment_id, name, sealed FROM environment_variables;

DROP TABLE environment_variables;
DROP TABLE environments;
