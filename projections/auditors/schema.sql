-- Tokens that read the audit trail. Dead ones stay, so that it can be told who could read it.
CREATE TABLE tokens (
    id           text PRIMARY KEY, -- the public part
    name         text NOT NULL,    -- whom it is for
    organization uuid,             -- the only one whose trail it reads; null: all
    hash         bytea NOT NULL,   -- SHA-256 of the token's secret
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz,      -- null: never
    revoked_at   timestamptz
);
