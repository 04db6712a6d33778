-- Deliveries. A row is inserted once and updated about once, and on the way to a success no indexed column changes, so
-- that updates stay on their page (HOT) and touch no index, however long the history is. What changes often is in the
-- table "due".
CREATE TABLE deliveries (
    id                  uuid PRIMARY KEY,
    organization        uuid NOT NULL,
    destination         uuid NOT NULL,
    created_at          timestamptz NOT NULL,
    completed_at        timestamptz,              -- since when it has its final status
    revision            bigint NOT NULL,          -- of the delivery's stream; -1: no event yet
    attempts            integer NOT NULL,
    automatic           integer NOT NULL,         -- attempts of the retry schedule
    event_id            uuid NOT NULL,
    event_time          timestamptz NOT NULL,
    feed_id             uuid,
    feed_type           text,
    status              text NOT NULL,            -- pending, succeeded, failed, superseded, discarded
    unsuccessful        text,                     -- the status if it is one of the last three, or retrying; for the index
    type                text NOT NULL,
    source              text NOT NULL,
    subject             text,
    replay              uuid,                     -- requested and not attempted yet
    subscriptions       uuid[] NOT NULL,
    -- The last attempt, whose number is "attempts"; null before the first. Most deliveries have one attempt only.
    attempted_at        timestamptz,
    duration_micros     bigint,
    renumbered_from     integer,
    response_status     integer,
    trigger             text,
    failure_reason      text,
    error_message       text,
    response_body       bytea,                    -- sealed
    response_headers    bytea,                    -- sealed; of answers that were no success
    sequence            bigint,                   -- the place in the log of the attempt's event
    changed_sequence    bigint NOT NULL DEFAULT 0, -- of the event that changed the row last; no index: see above
    attempted_on        date GENERATED ALWAYS AS (  -- UTC day of the last attempt, unless it is the day of creation
        nullif((attempted_at AT TIME ZONE 'UTC')::date, (created_at AT TIME ZONE 'UTC')::date)) STORED
) WITH (fillfactor = 45);
ALTER TABLE deliveries ALTER response_body SET STORAGE EXTERNAL; -- sealed bytes don't compress
CREATE INDEX ON deliveries (destination, created_at DESC, id DESC);
-- For analysts, who ask for days: rows are in the order of their creation, and hardly any page more is written.
CREATE INDEX deliveries_created ON deliveries USING brin (created_at, ((created_at AT TIME ZONE 'UTC')::date))
    WITH (autosummarize = on);
-- Most deliveries are attempted on their day only, which leaves the column null, so that it changes no index.
CREATE INDEX ON deliveries (attempted_on) WHERE attempted_on IS NOT NULL;
-- Failures are what people look for, and rare. A success leaves the column null, so that it changes no index.
CREATE INDEX ON deliveries (destination, unsuccessful, created_at DESC, id DESC) WHERE unsuccessful IS NOT NULL;

-- Attempts that were followed by another one.
CREATE TABLE earlier_attempts (
    delivery        uuid NOT NULL,
    number          integer NOT NULL,
    renumbered_from integer,
    trigger         text NOT NULL,
    response_status integer,
    response_body   bytea,                        -- sealed
    response_headers bytea,                       -- sealed
    error_message   text,
    failure_reason  text,
    attempted_at    timestamptz NOT NULL,
    duration_micros bigint NOT NULL,
    sequence        bigint,                       -- the place of its event in the log
    PRIMARY KEY (delivery, number)
);
ALTER TABLE earlier_attempts ALTER response_body SET STORAGE EXTERNAL;
CREATE INDEX ON earlier_attempts USING brin (((attempted_at AT TIME ZONE 'UTC')::date)) WITH (autosummarize = on);

-- All attempts.
CREATE VIEW attempts AS
    SELECT delivery, number, renumbered_from, trigger, response_status, response_body, response_headers, error_message, failure_reason,
           attempted_at, duration_micros
    FROM earlier_attempts
    UNION ALL
    SELECT id, attempts, renumbered_from, trigger, response_status, response_body, response_headers, error_message, failure_reason,
           attempted_at, duration_micros
    FROM deliveries WHERE attempts > 0;

-- Deliveries that wait for an attempt or are being sent: the pending ones, and those with a replay to do. It is small
-- however long the history is. Deliverers claim rows here, see claims.go.
CREATE TABLE due (
    id           uuid PRIMARY KEY,
    destination  uuid NOT NULL,
    due_at       timestamptz NOT NULL,            -- the next attempt
    available_at timestamptz NOT NULL,            -- where nobody holds it due_at, or later; else the end of the lease
    worker       integer,                         -- the deliverer that holds it
    replay       uuid,                            -- the replay that was requested
    decided_at   timestamptz                      -- when due_at was decided; null: a version before has made the row
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 5000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 20000);
-- A row is in one of these: it is free, free for a replay, or held.
CREATE INDEX due_automatic ON due (destination, available_at) WHERE worker IS NULL AND replay IS NULL;
CREATE INDEX due_replay ON due (destination, available_at) WHERE worker IS NULL AND replay IS NOT NULL;
-- By time. They have a condition more, so that only what asks for it goes by them: a plan for one destination does not.
CREATE INDEX due_automatic_next ON due (available_at) WHERE worker IS NULL AND replay IS NULL AND available_at > '-infinity';
CREATE INDEX due_replay_next ON due (available_at) WHERE worker IS NULL AND replay IS NOT NULL AND available_at > '-infinity';
CREATE INDEX due_held ON due (worker, available_at) WHERE worker IS NOT NULL;

-- How many deliveries there are, by UTC day of creation: lists take totals from here, and find the days that hold what
-- they look for.
CREATE TABLE tallies (
    destination uuid NOT NULL,
    day         date NOT NULL,
    type        text NOT NULL,
    feed_id     uuid NOT NULL,                    -- zero: no feed
    total       bigint NOT NULL,
    succeeded   bigint NOT NULL,
    failed      bigint NOT NULL,
    superseded  bigint NOT NULL,
    discarded   bigint NOT NULL,                  -- the others are pending
    PRIMARY KEY (destination, day, type, feed_id)
) WITH (fillfactor = 45);

-- The same of each organization, for overviews: the sums of the tallies of its destinations, deleted ones too. Those are
-- as many as it has destinations, types and feeds; these are one a day.
CREATE TABLE outcomes (
    organization uuid NOT NULL,
    day          date NOT NULL,
    total        bigint NOT NULL,
    succeeded    bigint NOT NULL,
    failed       bigint NOT NULL,
    superseded   bigint NOT NULL,
    discarded    bigint NOT NULL,
    PRIMARY KEY (organization, day)
) WITH (fillfactor = 45);

-- Deliveries that are retired: no row of them is left, and no tally; the outcomes count them still. Each destination and
-- day of theirs has few rows, however many they were.
CREATE TABLE retired (
    destination  uuid NOT NULL,
    organization uuid NOT NULL,
    day          date NOT NULL,
    type         text NOT NULL,
    feed_id      uuid NOT NULL,                   -- zero: no feed
    total        bigint NOT NULL,
    succeeded    bigint NOT NULL,
    failed       bigint NOT NULL,
    superseded   bigint NOT NULL,
    discarded    bigint NOT NULL,
    PRIMARY KEY (destination, organization, day, type, feed_id)
);

-- Their attempts.
CREATE TABLE retired_attempts (
    destination     uuid NOT NULL,
    day             date NOT NULL,                -- of the attempts
    failure_reason  text NOT NULL,                -- empty: a success
    response_status integer NOT NULL,             -- 0: no answer
    duration_micros bigint NOT NULL,              -- two significant digits
    attempts        bigint NOT NULL,
    deliveries      bigint NOT NULL,              -- that failed first on the day with the reason and status
    last_at         timestamptz,                  -- of failures
    PRIMARY KEY (day, destination, failure_reason, response_status, duration_micros)
);

-- What counts need of the deliveries of deleted destinations, until they are retired. Nobody sees a row. Their earlier
-- attempts stay where they are, without content.
CREATE TABLE deleted_deliveries (
    id              uuid PRIMARY KEY,
    organization    uuid NOT NULL,
    destination     uuid NOT NULL,
    day             date NOT NULL,
    type            text NOT NULL,
    feed_id         uuid NOT NULL,                -- zero: no feed
    status          text NOT NULL,                -- what waited is discarded
    attempted_at    timestamptz,                  -- of the last attempt, like the rest; null: there was none
    failure_reason  text,
    response_status integer,
    duration_micros bigint
);
CREATE INDEX ON deleted_deliveries (destination, day);
CREATE INDEX ON deleted_deliveries USING brin (((attempted_at AT TIME ZONE 'UTC')::date)) WITH (autosummarize = on);

-- For analysts: with those that are retired, and those of deleted destinations.
CREATE VIEW all_tallies AS
    SELECT destination, day, type, feed_id, total, succeeded, failed, superseded, discarded FROM tallies
    UNION ALL
    SELECT destination, day, type, feed_id, total, succeeded, failed, superseded, discarded FROM retired
    UNION ALL
    SELECT destination, day, type, feed_id, count(*), count(*) FILTER (WHERE status = 'succeeded'),
        count(*) FILTER (WHERE status = 'failed'), count(*) FILTER (WHERE status = 'superseded'),
        count(*) FILTER (WHERE status = 'discarded')
    FROM deleted_deliveries GROUP BY destination, day, type, feed_id;

-- The same of attempts, a row each. A retired one names no delivery: first is 1 where it stands for one more.
CREATE VIEW all_attempts AS
    SELECT organization, destination, (created_at AT TIME ZONE 'UTC')::date AS day, id AS delivery, 0 AS first,
        failure_reason, response_status, duration_micros, attempted_at
    FROM deliveries WHERE attempts > 0 AND attempted_on IS NULL
    UNION ALL
    SELECT organization, destination, attempted_on, id, 0, failure_reason, response_status, duration_micros, attempted_at
    FROM deliveries WHERE attempted_on IS NOT NULL
    UNION ALL
    SELECT organization, destination, (attempted_at AT TIME ZONE 'UTC')::date, id, 0, failure_reason, response_status,
        duration_micros, attempted_at
    FROM deleted_deliveries WHERE attempted_at IS NOT NULL
    UNION ALL
    SELECT d.organization, d.destination, (a.attempted_at AT TIME ZONE 'UTC')::date, a.delivery, 0,
        a.failure_reason, a.response_status, a.duration_micros, a.attempted_at
    FROM earlier_attempts a JOIN deliveries d ON d.id = a.delivery
    UNION ALL
    SELECT d.organization, d.destination, (a.attempted_at AT TIME ZONE 'UTC')::date, a.delivery, 0,
        a.failure_reason, a.response_status, a.duration_micros, a.attempted_at
    FROM earlier_attempts a JOIN deleted_deliveries d ON d.id = a.delivery
    UNION ALL
    SELECT o.organization, r.destination, r.day, NULL, (n <= r.deliveries)::integer, nullif(r.failure_reason, ''),
        nullif(r.response_status, 0), r.duration_micros, r.last_at
    FROM retired_attempts r CROSS JOIN LATERAL generate_series(1, r.attempts) n
    JOIN (SELECT DISTINCT destination, organization FROM retired) o ON o.destination = r.destination;

-- Deleted destinations: a delivery that was scheduled at the same time is discarded when it arrives.
CREATE TABLE gone (destination uuid PRIMARY KEY);
