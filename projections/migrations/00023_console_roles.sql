-- +goose Up
-- Operators and auditors sign in at the console as well. Theirs are not of an organization, whose id is zero then, and
-- key is the id of the token that they showed.
ALTER TABLE carillon.console_sessions
    ADD COLUMN role text NOT NULL DEFAULT 'organization', -- or operator, auditor
    ADD COLUMN name text NOT NULL DEFAULT '';             -- of an operator or auditor

-- +goose Down
DELETE FROM carillon.console_sessions WHERE role <> 'organization';
ALTER TABLE carillon.console_sessions DROP COLUMN role, DROP COLUMN name;
