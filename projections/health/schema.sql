-- How a destination answers. A destination has its row from its creation to its deletion.
CREATE TABLE health (
    destination          uuid PRIMARY KEY,
    consecutive_failures integer NOT NULL DEFAULT 0,
    streak_started_at    timestamptz,  -- of the first failure counted in consecutive_failures
    last_success_at      timestamptz,  -- ever
    last_failure_at      timestamptz,  -- since the last success
    last_error_message   text
) WITH (fillfactor = 50);              -- one row changes with every batch: keep the new version on the same page
