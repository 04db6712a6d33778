-- +goose Up
-- Who is signed in at the console, and the links that sign people in, by hashes of what browsers and links hold. All
-- nodes honour them. Both may be lost: people sign in again.
CREATE TABLE carillon.console_sessions (
    hash         bytea PRIMARY KEY,
    organization uuid NOT NULL,
    key          text NOT NULL,       -- the id of the API key that it began with; empty: a link
    expires_at   timestamptz NOT NULL
);
CREATE INDEX console_sessions_ended ON carillon.console_sessions (expires_at);

CREATE TABLE carillon.console_links (
    hash         bytea PRIMARY KEY,
    organization uuid NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX console_links_ended ON carillon.console_links (expires_at);

-- +goose Down
DROP TABLE carillon.console_sessions, carillon.console_links;
