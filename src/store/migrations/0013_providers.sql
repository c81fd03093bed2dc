-- Providers of models that the API made. The key is a reference, or sealed.
CREATE TABLE providers (
	id TEXT PRIMARY KEY,
	name TEXT NOT NULL,
	kind TEXT NOT NULL,
	base_url TEXT NOT NULL,
	secret TEXT,
	sealed TEXT,
	default_model TEXT,
	models_list TEXT NOT NULL,
	aliases_list TEXT NOT NULL,
	prices_list TEXT NOT NULL,
	visibility TEXT NOT NULL,
	owner TEXT NOT NULL,
	team TEXT NOT NULL,
	created_ms BIGINT NOT NULL,
	UNIQUE (team, name)
);
