-- +goose Up
-- What is due is looked for by time. Deliveries that were made into rows by the version before get the two indexes as they
-- are, in place of a rebuild of all of them: they differ from what this version makes by nothing else.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM carillon.checkpoints WHERE name = 'deliveries' AND fingerprint = 'e0909942f88516e8') THEN
        CREATE INDEX due_automatic_next ON deliveries.due (available_at) WHERE worker IS NULL AND replay IS NULL AND available_at > '-infinity';
        CREATE INDEX due_replay_next ON deliveries.due (available_at) WHERE worker IS NULL AND replay IS NOT NULL AND available_at > '-infinity';
        UPDATE carillon.checkpoints SET fingerprint = 'b458234e092f73e6' WHERE name = 'deliveries';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM carillon.checkpoints WHERE name = 'deliveries' AND fingerprint = 'b458234e092f73e6') THEN
        DROP INDEX deliveries.due_automatic_next, deliveries.due_replay_next;
        UPDATE carillon.checkpoints SET fingerprint = 'e0909942f88516e8' WHERE name = 'deliveries';
    END IF;
END $$;
-- +goose StatementEnd
