-- Credentials of forges whose secret is "sealed" in config.toml.

CREATE TABLE forge_secrets (
	name TEXT PRIMARY KEY,
	sealed TEXT NOT NULL
);
