-- +goose Up
-- Every telling and every view is written in a transaction that holds the row of its walk (hold_walk, or the one that has
-- just made it), so that a look at that row for each of them finds out nothing. They go with their walk all the same.
ALTER TABLE carillon.source_tellings DROP CONSTRAINT source_tellings_source_id_fkey;
ALTER TABLE carillon.source_views DROP CONSTRAINT source_views_source_id_fkey;
-- +goose StatementBegin
CREATE FUNCTION carillon.forget_tellings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM carillon.source_tellings t USING gone WHERE t.source_id = gone.source_id;
    DELETE FROM carillon.source_views v USING gone WHERE v.source_id = gone.source_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER forget_tellings AFTER DELETE ON carillon.source_walks
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION carillon.forget_tellings();

-- +goose Down
DROP TRIGGER forget_tellings ON carillon.source_walks;
DROP FUNCTION carillon.forget_tellings;
ALTER TABLE carillon.source_tellings ADD CONSTRAINT source_tellings_source_id_fkey FOREIGN KEY (source_id) REFERENCES carillon.source_walks ON DELETE CASCADE;
ALTER TABLE carillon.source_views ADD CONSTRAINT source_views_source_id_fkey FOREIGN KEY (source_id) REFERENCES carillon.source_walks ON DELETE CASCADE;
