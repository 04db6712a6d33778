-- How a destination answers. A destination has its row from its creation to its deletion.
CREATE TABLE health (
    destination          uuid PRIMARY KEY,
    consecutive_failures integer NOT NULL DEFAULT 0,
    streak_started_at    timestamptz,  -- of the first failure counted in consecutive_failures
    last_success_at      timestamptz,  -- ever
    last_failure_at      timestamptz,  -- since the last success
    last_error_message   text
) WITH (fillfactor = 50);              -- one row changes with every batch: keep the new version on the same page

-- How many attempts were answered how soon, in slots of time: what charts are drawn from. An attempt counts in four rows: for
-- its destination and for all destinations of its organization, in a slot of five minutes and in one of an hour.
CREATE TABLE answers (
    scope    uuid NOT NULL,        -- the destination, or the organization: of all its destinations, deleted ones too
    minutes  smallint NOT NULL,    -- 5 or 60: how long the slot is
    slot     timestamptz NOT NULL, -- when it begins
    step     smallint NOT NULL,    -- how long they took: 0 below 1 ms, n from √2^(n-1) to √2^n ms, the last one any longer
    type     text NOT NULL,        -- of the event; empty: an attempt that a version before 1.0 has recorded
    reason   text NOT NULL,        -- why they failed; empty: they succeeded
    attempts bigint NOT NULL,
    PRIMARY KEY (scope, minutes, slot, step, type, reason)
) WITH (fillfactor = 70);
