-- +goose Up
-- What holds for a host whoever asks it, shared by all processes that collect: when its next turn is, until when it wants
-- to be left alone, and its robots.txt. All of it may be lost at any time, which costs a few requests.
CREATE TABLE carillon.hosts (
    name       text PRIMARY KEY, -- lower case, with the port where it is not that of the scheme
    next_at    timestamptz NOT NULL,
    rest_until timestamptz NOT NULL DEFAULT '-infinity'
);

CREATE TABLE carillon.robots (
    origin        text PRIMARY KEY, -- scheme and host
    body          bytea NOT NULL,   -- empty where there is no such file
    url           text NOT NULL,    -- that answered, for which the validators hold
    etag          text NOT NULL,
    last_modified text NOT NULL,
    answered_at   timestamptz NOT NULL
);

CREATE INDEX robots_by_age ON carillon.robots (answered_at);

-- +goose Down
DROP TABLE carillon.hosts, carillon.robots;
