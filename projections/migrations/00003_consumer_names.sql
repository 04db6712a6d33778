-- +goose Up
-- Three process managers were called steward, curator and health_watch. They are now called by what they do, and go on
-- where they were: a checkpoint is a row under their name, their saved state a schema of that name. A name that is
-- taken already is left alone: then a process of this version was here before an older one came back.
-- +goose StatementBegin
DO $$
DECLARE
    renamed record;
BEGIN
    FOR renamed IN SELECT * FROM (VALUES
        ('steward', 'deletion_cascade'), ('curator', 'feed_curation'), ('health_watch', 'destination_health')
    ) names (old, new) LOOP
        IF EXISTS (SELECT FROM carillon.checkpoints WHERE name = renamed.new) THEN
            CONTINUE;
        END IF;
        UPDATE carillon.checkpoints SET name = renamed.new WHERE name = renamed.old;
        IF FOUND AND to_regnamespace(renamed.old) IS NOT NULL THEN
            EXECUTE format('ALTER SCHEMA %I RENAME TO %I', renamed.old, renamed.new);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
DO $$
DECLARE
    renamed record;
BEGIN
    FOR renamed IN SELECT * FROM (VALUES
        ('steward', 'deletion_cascade'), ('curator', 'feed_curation'), ('health_watch', 'destination_health')
    ) names (old, new) LOOP
        UPDATE carillon.checkpoints SET name = renamed.old WHERE name = renamed.new;
        IF FOUND AND to_regnamespace(renamed.new) IS NOT NULL THEN
            EXECUTE format('ALTER SCHEMA %I RENAME TO %I', renamed.new, renamed.old);
        END IF;
    END LOOP;
END $$;
-- +goose StatementEnd
