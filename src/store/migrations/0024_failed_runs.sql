-- Runs that ended badly are few among those that did not: a list of them walks through no others.
CREATE INDEX runs_failed ON runs (state, task_id, id) WHERE state IN ('failed', 'cancelled');
