-- Destinations as their organization sees them. Rows go when the destination is deleted.
CREATE TABLE destinations (
    id            uuid PRIMARY KEY,
    organization  uuid NOT NULL,
    external_id   text,
    name          text NOT NULL,
    shown_url     text NOT NULL,     -- where address is null, the whole URL; else what everybody may see of it
    address       bytea,             -- the whole URL, sealed
    headers       bytea,             -- sealed
    settings      jsonb NOT NULL,    -- destination.Plain: those that no query goes by
    status        text NOT NULL,     -- enabled, disabled, auto_disabled
    status_reason text,              -- of an automatic disabling
    created_at    timestamptz NOT NULL,
    updated_at    timestamptz NOT NULL,
    revision      bigint NOT NULL,   -- of the destination's stream
    changed_sequence bigint NOT NULL DEFAULT 0 -- of the event that changed the row last
);
CREATE INDEX ON destinations (organization, created_at, id);
CREATE INDEX ON destinations (organization, external_id) WHERE external_id IS NOT NULL;

-- Signing secrets, expired ones included.
CREATE TABLE secrets (
    destination uuid NOT NULL,
    id          uuid NOT NULL,
    sealed      bytea NOT NULL,
    created_at  timestamptz NOT NULL,
    expires_at  timestamptz,                   -- null: never
    revision    bigint NOT NULL,               -- of the event that made it: orders secrets of the same instant
    PRIMARY KEY (destination, id)
);

-- Deleted destinations, by which analysts know what was counted.
CREATE TABLE deleted (
    id           uuid PRIMARY KEY,
    organization uuid NOT NULL,
    external_id  text,
    name         text NOT NULL,
    deleted_at   timestamptz NOT NULL
);

CREATE VIEW all_destinations AS
    SELECT id, organization, external_id, name, NULL::timestamptz AS deleted_at FROM destinations
    UNION ALL SELECT id, organization, external_id, name, deleted_at FROM deleted;
