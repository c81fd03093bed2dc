-- What sandboxes use that are not those of runs. While one runs, a row for each day of this start,
-- with all it used on that day: written again and again it is the same. When it ends they are added
-- to the sums below, by those who had it, in the commit of that end.
CREATE TABLE sandbox_use (
	sandbox_id TEXT NOT NULL,
	day_ms BIGINT NOT NULL,
	team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
	owner_id TEXT NOT NULL,
	visibility TEXT NOT NULL,
	chain TEXT NOT NULL,
	maker TEXT NOT NULL,
	starts BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	cpu_us BIGINT NOT NULL,
	uptime_ms BIGINT NOT NULL,
	memory_byte_seconds BIGINT NOT NULL,
	disk_byte_seconds BIGINT NOT NULL,
	network_bytes BIGINT NOT NULL,
	PRIMARY KEY (sandbox_id, day_ms)
);
CREATE TABLE sandbox_spend (
	team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
	owner_id TEXT NOT NULL,
	visibility TEXT NOT NULL,
	chain TEXT NOT NULL,
	maker TEXT NOT NULL,
	day_ms BIGINT NOT NULL,
	starts BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	cpu_us BIGINT NOT NULL,
	uptime_ms BIGINT NOT NULL,
	memory_byte_seconds BIGINT NOT NULL,
	disk_byte_seconds BIGINT NOT NULL,
	network_bytes BIGINT NOT NULL,
	PRIMARY KEY (team_id, day_ms, owner_id, visibility, chain)
);
