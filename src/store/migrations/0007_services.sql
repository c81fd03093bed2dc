-- Services: names inside for places outside. The secret is a reference, or sealed.
CREATE TABLE services (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	upstream TEXT NOT NULL,
	headers_list TEXT NOT NULL,
	secret TEXT,
	sealed TEXT,
	methods_list TEXT NOT NULL,
	paths_list TEXT NOT NULL,
	response_bytes BIGINT NOT NULL,
	timeout_ms BIGINT NOT NULL,
	visibility TEXT NOT NULL,
	owner TEXT NOT NULL,
	team TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	updated_ms BIGINT NOT NULL,
	UNIQUE (team, name)
);
