-- +goose Up
-- For how long destinations are left alone, because their receivers asked for that: what each process that sends must know at
-- once, and may lose at any time, which costs a few requests that are refused.
CREATE TABLE carillon.resting (
    destination uuid PRIMARY KEY,
    until       timestamptz NOT NULL,
    asked_at    timestamptz NOT NULL
);

-- +goose Down
DROP TABLE carillon.resting;
