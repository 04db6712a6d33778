-- +goose Up
-- Things that were counted against a limit of their organization and that the read model may not show yet. A row counts
-- until the read model has come to its position, or for ten minutes where nobody said what became of the thing.
CREATE TABLE carillon.quota_claims (
    id           uuid PRIMARY KEY, -- of the thing
    organization uuid NOT NULL,
    kind         text NOT NULL,    -- the limit
    amount       integer NOT NULL, -- how many things it stands for
    claimed_at   timestamptz NOT NULL DEFAULT now(),
    position     bigint            -- commit position of what made it; NULL: not made yet
);

CREATE INDEX quota_claims_of_organization ON carillon.quota_claims (organization, kind);

-- Requests that an organization may still make at once: a token bucket, from which every process takes some ahead.
CREATE TABLE carillon.request_tokens (
    organization uuid PRIMARY KEY,
    left_over    double precision NOT NULL,
    granted      double precision NOT NULL, -- the last time
    at           timestamptz NOT NULL
);

-- +goose Down
DROP TABLE carillon.quota_claims, carillon.request_tokens;
