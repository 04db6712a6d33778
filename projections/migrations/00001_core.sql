-- +goose Up
-- How far each projection and process manager has come. The schema fingerprint tells a read model that was built by
-- older code; the epoch changes when another build of it takes its place, which fences the runner of the old one.
CREATE TABLE carillon.checkpoints (
    name        text PRIMARY KEY,
    fingerprint text   NOT NULL,
    epoch       bigint NOT NULL DEFAULT 1,
    commit      bigint NOT NULL DEFAULT 0,
    prepare     bigint NOT NULL DEFAULT 0,
    events      bigint NOT NULL DEFAULT 0,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    stopped     text -- why it stopped for good, until it is started again
);

-- Wrapped data keys, one for each destination. They live outside the event log on purpose: deleting a row makes the
-- secrets and response bodies in the log and in its backups unreadable.
CREATE TABLE carillon.data_keys (
    id         uuid PRIMARY KEY,
    wrapped    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Requests counted for each organization and minute, shared by all nodes.
CREATE TABLE carillon.rate_limits (
    organization uuid   NOT NULL,
    bucket       text   NOT NULL,
    window_start timestamptz NOT NULL,
    count        integer NOT NULL,
    PRIMARY KEY (organization, bucket)
);

-- +goose Down
DROP TABLE carillon.checkpoints, carillon.data_keys, carillon.rate_limits;
