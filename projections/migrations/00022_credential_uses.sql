-- +goose Up
-- When keys and tokens were used last, to the hour, by prefix and public part (ck_…, ca_…, co_…). It may be lost: they count
-- as not used until they are used again.
CREATE TABLE carillon.credential_uses (
    credential text PRIMARY KEY,
    used_at    timestamptz NOT NULL
);

-- +goose Down
DROP TABLE carillon.credential_uses;
