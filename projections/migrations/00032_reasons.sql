-- +goose Up
-- Why work was asked for, and the people of login links with the scopes of their sessions: none means all.
ALTER TABLE carillon.console_work ADD COLUMN reason text NOT NULL DEFAULT '';
ALTER TABLE carillon.console_links ADD COLUMN person text NOT NULL DEFAULT '', ADD COLUMN scopes text[] NOT NULL DEFAULT '{}';
ALTER TABLE carillon.console_sessions ADD COLUMN person text NOT NULL DEFAULT '', ADD COLUMN scopes text[] NOT NULL DEFAULT '{}';

-- +goose Down
ALTER TABLE carillon.console_work DROP COLUMN reason;
ALTER TABLE carillon.console_links DROP COLUMN person, DROP COLUMN scopes;
ALTER TABLE carillon.console_sessions DROP COLUMN person, DROP COLUMN scopes;
