-- +goose Up
-- Moves a checkpoint, or fails where it is not where its runner left it: another build or runner has taken over. As the
-- first statement of a transaction it keeps whoever was fenced from writing anything, without an answer that has to be
-- waited for.
-- +goose StatementBegin
CREATE FUNCTION carillon.move_checkpoint(
    runner text, in_epoch bigint, from_commit bigint, from_prepare bigint, to_commit bigint, to_prepare bigint,
    more_events bigint, stream text, revision bigint, event uuid
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE carillon.checkpoints c
    SET commit = to_commit, prepare = to_prepare, events = c.events + more_events, updated_at = now(),
        last_stream = nullif(stream, ''), last_revision = revision, last_event = event
    WHERE c.name = runner AND c.epoch = in_epoch AND c.commit = from_commit AND c.prepare = from_prepare;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'CF001';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION carillon.move_checkpoint;
