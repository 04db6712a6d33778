-- +goose Up
ALTER TABLE carillon.source_walks
    ADD COLUMN resumed_at timestamptz, -- sources.resumed_at that the walk was made due for
    ADD COLUMN last_tally jsonb;       -- what the last walk that went through has come to

-- +goose Down
ALTER TABLE carillon.source_walks DROP COLUMN resumed_at, DROP COLUMN last_tally;
