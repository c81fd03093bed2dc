-- Times are CLOCK_REALTIME in milliseconds, 0 = not yet. Columns called *_list hold several texts,
-- one a line, with backslash and newline escaped (store/pack.h).

CREATE TABLE meta (
	name TEXT PRIMARY KEY,
	value TEXT NOT NULL
);

CREATE TABLE images (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL UNIQUE,
	format TEXT NOT NULL,
	config TEXT,
	bytes BIGINT NOT NULL,
	entries BIGINT NOT NULL,
	created_ms BIGINT NOT NULL
);

-- A row stays until its files are gone, also when no image refers to it any more.
CREATE TABLE layers (
	id TEXT PRIMARY KEY
);

CREATE TABLE image_layers (
	image_id TEXT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
	position BIGINT NOT NULL,
	layer_id TEXT NOT NULL REFERENCES layers (id),
	PRIMARY KEY (image_id, position)
);
CREATE INDEX image_layers_by_layer ON image_layers (layer_id);

CREATE TABLE sandboxes (
	id TEXT PRIMARY KEY,
	name TEXT UNIQUE,
	state TEXT NOT NULL,
	profile TEXT NOT NULL,
	runtime TEXT NOT NULL,
	image TEXT NOT NULL,
	image_id TEXT REFERENCES images (id),
	run_user TEXT,
	cwd TEXT,
	hostname TEXT,
	disk_backend TEXT NOT NULL,
	network TEXT NOT NULL,
	env_list TEXT NOT NULL,
	limits_list TEXT NOT NULL,
	ttl_ms BIGINT NOT NULL,
	degraded BIGINT NOT NULL,
	created_ms BIGINT NOT NULL,
	started_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	expires_ms BIGINT NOT NULL,
	end_reason TEXT,
	detail TEXT,
	is_degraded BIGINT NOT NULL,
	mechanisms_list TEXT NOT NULL,
	meters_list TEXT NOT NULL
);
CREATE INDEX sandboxes_by_image ON sandboxes (image_id);

CREATE TABLE sandbox_labels (
	sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
	position BIGINT NOT NULL,
	label_key TEXT NOT NULL,
	label_value TEXT NOT NULL,
	PRIMARY KEY (sandbox_id, label_key)
);
CREATE INDEX sandbox_labels_by_label ON sandbox_labels (label_key, label_value);

CREATE TABLE sandbox_mounts (
	sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
	position BIGINT NOT NULL,
	source TEXT,
	grant_id TEXT,
	target TEXT NOT NULL,
	read_only BIGINT NOT NULL,
	PRIMARY KEY (sandbox_id, position)
);

CREATE TABLE execs (
	id TEXT PRIMARY KEY,
	sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
	argv_list TEXT NOT NULL,
	run_user TEXT,
	cwd TEXT,
	tty BIGINT NOT NULL,
	background BIGINT NOT NULL,
	started_ms BIGINT NOT NULL,
	ended_ms BIGINT NOT NULL,
	exit_code BIGINT NOT NULL,
	signal BIGINT NOT NULL,
	reason TEXT,
	output_bytes BIGINT NOT NULL
);
CREATE INDEX execs_by_sandbox ON execs (sandbox_id, id);

-- No reference to sandboxes: what happened stays true after its sandbox is gone.
CREATE TABLE events (
	seq BIGINT PRIMARY KEY,
	sandbox_id TEXT,
	sandbox_seq BIGINT NOT NULL,
	time_ms BIGINT NOT NULL,
	kind TEXT NOT NULL,
	data TEXT
);
CREATE UNIQUE INDEX events_by_sandbox ON events (sandbox_id, sandbox_seq);

CREATE TABLE idempotency_keys (
	request_key TEXT NOT NULL,
	route TEXT NOT NULL,
	body_hash TEXT NOT NULL,
	status BIGINT NOT NULL,
	response TEXT,
	expires_ms BIGINT NOT NULL,
	PRIMARY KEY (request_key, route)
);
CREATE INDEX idempotency_keys_by_expiry ON idempotency_keys (expires_ms);
