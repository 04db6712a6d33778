-- +goose Up
-- How the rows of each read model compared with those that its events make, the last time they were compared.
CREATE TABLE carillon.verifications (
    name        text PRIMARY KEY, -- of the read model
    at          timestamptz NOT NULL DEFAULT clock_timestamp(),
    sample      double precision NOT NULL, -- percent of its rows that were compared
    rows        bigint NOT NULL,  -- that were compared
    differing   bigint NOT NULL,  -- of them and of those that no event makes
    differences jsonb NOT NULL    -- the first of them
);

-- +goose Down
DROP TABLE carillon.verifications;
