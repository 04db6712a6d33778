-- +goose Up
-- Deliveries that the version before has made into rows go on as they are, in place of a rebuild of all of them: when
-- their due times were decided is not known.
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM carillon.checkpoints WHERE name = 'deliveries' AND fingerprint = 'b458234e092f73e6') THEN
        ALTER TABLE deliveries.due ADD decided_at timestamptz;
        UPDATE carillon.checkpoints SET fingerprint = '1babc89c0e9aa81d' WHERE name = 'deliveries';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
BEGIN
    IF EXISTS (SELECT FROM carillon.checkpoints WHERE name = 'deliveries' AND fingerprint = '1babc89c0e9aa81d') THEN
        ALTER TABLE deliveries.due DROP decided_at;
        UPDATE carillon.checkpoints SET fingerprint = 'b458234e092f73e6' WHERE name = 'deliveries';
    END IF;
END $$;
-- +goose StatementEnd
