-- With which credential a sandbox was made, behind those above it: oldest first, blanks between. A
-- run works with what was made on its own credential or below it.
ALTER TABLE sandboxes ADD COLUMN made_by TEXT;
ALTER TABLE tasks ADD COLUMN made_by TEXT;
