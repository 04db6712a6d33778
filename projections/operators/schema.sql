-- Tokens of operators. Dead ones stay, so that it can be told who could do what when.
CREATE TABLE tokens (
    id         text PRIMARY KEY, -- the public part
    name       text NOT NULL,    -- of the operator
    hash       bytea NOT NULL,   -- SHA-256 of the token's secret
    created_at timestamptz NOT NULL,
    expires_at timestamptz,      -- null: never; of a token that was rotated: the end of its overlap at the latest
    revoked_at timestamptz
);

CREATE INDEX tokens_of_operator ON tokens (name);
