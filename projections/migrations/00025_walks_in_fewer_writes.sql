-- +goose Up
-- What a page is the first to tell of its source need not be marked and read again to be compared: the visit has it at
-- hand, and only a visit that is cut off leaves it behind.
ALTER TABLE carillon.source_walks ADD COLUMN fresh uuid; -- the page whose happenings, new to the source, are yet to be compared

-- A search would go through all that waits to be sorted in.
ALTER INDEX carillon.source_views_evidence SET (fastupdate = off);

-- As before, and keeps how far the walk is: one row, changed once a page. What is written with it is planned once, by
-- index: to plan it for each page took longer than to do it.
DROP FUNCTION carillon.hold_walk(uuid, uuid, interval);
-- +goose StatementBegin
CREATE FUNCTION carillon.hold_walk(of uuid, by uuid, length interval, page uuid, more_asked integer, more_linked integer, sum jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
        set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
    UPDATE carillon.source_walks SET held_until = greatest(held_until, clock_timestamp() + length), fresh = page,
        asked = asked + more_asked, linked = linked + more_linked, tally = coalesce(sum, tally)
    WHERE source_id = of AND holder = by;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the turn is lost' USING ERRCODE = 'CAR01';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION carillon.hold_walk(uuid, uuid, interval, uuid, integer, integer, jsonb);
-- +goose StatementBegin
CREATE FUNCTION carillon.hold_walk(of uuid, by uuid, length interval) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE carillon.source_walks SET held_until = greatest(held_until, clock_timestamp() + length) WHERE source_id = of AND holder = by;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the turn is lost' USING ERRCODE = 'CAR01';
    END IF;
END $$;
-- +goose StatementEnd
ALTER INDEX carillon.source_views_evidence RESET (fastupdate);
UPDATE carillon.source_views v SET waiting = true, digest = NULL FROM carillon.source_walks w JOIN carillon.source_tellings t ON t.source_id = w.source_id AND t.page = w.fresh
WHERE v.source_id = t.source_id AND v.happening_id = t.happening_id;
ALTER TABLE carillon.source_walks DROP COLUMN fresh;
