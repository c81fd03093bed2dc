-- What calls to models cost that no run paid for, by the hour: keys and teams have budgets too.
CREATE TABLE model_spend (
	team_id TEXT NOT NULL REFERENCES teams (id) ON DELETE CASCADE,
	chain TEXT NOT NULL,
	hour_ms BIGINT NOT NULL,
	input_tokens BIGINT NOT NULL,
	cached_tokens BIGINT NOT NULL,
	output_tokens BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	PRIMARY KEY (team_id, chain, hour_ms)
);
