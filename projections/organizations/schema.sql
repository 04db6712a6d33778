CREATE TABLE organizations (
    id         uuid PRIMARY KEY,
    name       text NOT NULL,
    created_at timestamptz NOT NULL,
    status     text NOT NULL DEFAULT 'registered', -- or suspended
    limits     jsonb NOT NULL DEFAULT '{}',        -- those that are set, by name
    suspended_at timestamptz                       -- last; null: never
);

CREATE INDEX organizations_suspended ON organizations (id) WHERE status = 'suspended';

-- Looked up at every request, by the public part of the key.
CREATE TABLE keys (
    id           text PRIMARY KEY,
    organization uuid NOT NULL,
    name         text NOT NULL,
    hash         bytea NOT NULL, -- SHA-256 of the key's secret
    scopes       text[] NOT NULL,
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL DEFAULT 'infinity', -- of a key that was rotated: the end of its overlap at the latest
    revoked_at   timestamptz,
    successor_of text NOT NULL   -- the key that was rotated; empty: none
);

CREATE INDEX keys_of_organization ON keys (organization, created_at, id);
