-- +goose Up
-- A position means something in one event store only. Each checkpoint therefore says of which store it is, and names
-- the last event that its consumer has taken in, which can be found again in a copy.
ALTER TABLE carillon.checkpoints
    ADD COLUMN store         text NOT NULL DEFAULT '', -- '' until it is known
    ADD COLUMN last_stream   text,
    ADD COLUMN last_revision bigint,
    ADD COLUMN last_event    uuid;

-- +goose Down
ALTER TABLE carillon.checkpoints DROP COLUMN store, DROP COLUMN last_stream, DROP COLUMN last_revision, DROP COLUMN last_event;
