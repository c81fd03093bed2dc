-- What becomes of what a budget pays for when it is spent: it ends, or it stands still.
ALTER TABLE budgets ADD COLUMN action TEXT NOT NULL DEFAULT 'stop';
