-- The journal of a run is in its row: whatever is written of a run is written with it, so rows of
-- their own were one more statement and one more tree each. One step a line: step, status,
-- attempts, begun, ended, detail.

ALTER TABLE runs ADD COLUMN steps_list TEXT NOT NULL DEFAULT '';
UPDATE runs SET steps_list = coalesce((SELECT group_concat(line, '') FROM (
	SELECT step || ' ' || status || ' ' || attempts || ' ' || started_ms || ' ' || ended_ms || ' ' ||
		replace(replace(coalesce(detail, ''), '\', '\\'), char(10), '\n') || char(10) AS line
	FROM run_steps WHERE run_id = runs.id ORDER BY position)), '');
DROP TABLE run_steps;
