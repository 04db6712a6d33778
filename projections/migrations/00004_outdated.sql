-- +goose Up
-- A read model whose rows are of another event store, or of a part of this one's history that is gone, serves on until
-- it is built anew beside them. One that has nothing yet is built in its place.
ALTER TABLE carillon.checkpoints
    ADD COLUMN outdated   text,   -- why the rows don't follow from the present event store; null where they do
    ADD COLUMN incomplete boolean NOT NULL DEFAULT false, -- begun from nothing, and not at the head of that time yet
    ADD COLUMN built      bigint, -- how far it is built anew, as a commit position; null where that does not go on
    ADD COLUMN build_to   bigint; -- the head when that began

-- +goose Down
ALTER TABLE carillon.checkpoints DROP COLUMN outdated, DROP COLUMN incomplete, DROP COLUMN built, DROP COLUMN build_to;
