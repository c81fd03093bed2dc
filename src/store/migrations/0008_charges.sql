-- What a run was charged besides what its sandbox used: calls of models. Part of its cost.
ALTER TABLE runs ADD COLUMN cached_tokens BIGINT NOT NULL DEFAULT 0;
ALTER TABLE runs ADD COLUMN charged BIGINT NOT NULL DEFAULT 0;
UPDATE events SET kind = 'budget.exhausted' WHERE kind = 'budget.exceeded';
