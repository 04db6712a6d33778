-- What lists and details of items are answered from.

-- An item as it is answered. The body is a JSON object without its closing brace, so that the occurrences of the query's
-- range, which is all that differs between two answers, can be appended as they stand.
--
-- A packed occurrence has 49 bytes: its id (16), the id of its instance (16), start and end in microseconds since 1970
-- (8 each, big endian, the smallest number for an end that is not known), and the first letter of its status as stored.
CREATE TABLE items (
    id           uuid PRIMARY KEY,
    feed_id      uuid NOT NULL,
    happening_id uuid NOT NULL,
    source_id    uuid NOT NULL, -- of the feed's sources the one that it is shown from, see the source block
    added_at     timestamptz NOT NULL,
    current      bytea NOT NULL, -- the current shape, of which the legacy one is made when it is asked for
    source       bytea NOT NULL, -- the source block, for include=source
    occurrences  bytea NOT NULL, -- all of them, packed, in order of start
    relevance    real,           -- for the feed, 0 to 1; null where its name and description have no words to go by
    changed_sequence bigint NOT NULL DEFAULT 0 -- of the event that changed the row last
);

-- What is answered stays in the row, and uncompressed: a page of items is one fetch each.
ALTER TABLE items SET (toast_tuple_target = 8160);
ALTER TABLE items ALTER COLUMN current SET STORAGE EXTERNAL;
ALTER TABLE items ALTER COLUMN source SET STORAGE EXTERNAL;
ALTER TABLE items ALTER COLUMN occurrences SET STORAGE EXTERNAL;

CREATE INDEX items_newest ON items (feed_id, added_at DESC, id);
CREATE INDEX items_of_happening ON items (happening_id);

-- When the items of a feed take place. An occurrence is in a range that it overlaps. An item's first one in a range is the
-- one in it before which all had ended by then, so that items are found, ordered and counted without a sort.
CREATE TABLE occurrences (
    item_id         uuid NOT NULL,
    number          integer NOT NULL, -- in order of start
    feed_id         uuid NOT NULL,
    starts_at       timestamptz NOT NULL,
    previous        timestamptz NOT NULL, -- last instant of the item's occurrences before; -infinity for the first
    instance_status text NOT NULL,        -- as stored: never completed
    instance_ends   timestamptz NOT NULL, -- end of the instance's last occurrence
    ends_at         timestamptz NOT NULL, -- its last instant: a microsecond before its end; without an end, its start
    long            boolean NOT NULL,     -- it takes more than 25 hours; most take a day at most
    PRIMARY KEY (item_id, number)
);

CREATE INDEX occurrences_in_order ON occurrences (feed_id, starts_at, item_id) INCLUDE (previous, instance_status, instance_ends, ends_at);
CREATE INDEX occurrences_by_end ON occurrences (feed_id, ends_at) INCLUDE (item_id);

-- What began long before a range and goes on in it is looked for here, everything else by its start.
CREATE INDEX occurrences_long ON occurrences (feed_id, ends_at) INCLUDE (item_id, starts_at, previous, instance_status, instance_ends)
    WHERE long;

-- When instances become completed.
CREATE INDEX occurrences_ending ON occurrences (feed_id, instance_ends) INCLUDE (item_id)
    WHERE instance_status IN ('scheduled', 'rescheduled');

-- Changes whenever anything in the feed does.
CREATE TABLE feeds (
    feed_id uuid PRIMARY KEY,
    version bigint NOT NULL
);

-- What the items of a feed are ranked by: the words of its name and of its description, as stems in its language.
CREATE TABLE wanted (
    feed_id        uuid PRIMARY KEY,
    language       text NOT NULL,
    by_name        text[] NOT NULL,
    by_description text[] NOT NULL
);

-- What sources show of happenings, and which feeds they fill: what items are rendered from.
CREATE TABLE shown (
    happening_id uuid NOT NULL,
    source_id    uuid NOT NULL,
    of_id        uuid NOT NULL, -- the happening that it is observed as, where that was merged into this one; else zero
    details      bytea NOT NULL,
    source       bytea NOT NULL,
    published_at timestamptz,
    standing     integer NOT NULL, -- see happening.Standing
    origins      bytea NOT NULL,   -- see happening.Origin
    stale        timestamptz,      -- since when it is not on show; null where it is
    since        timestamptz NOT NULL,
    dated_at     timestamptz NOT NULL, -- since when its dates and statuses are told as they are
    told_at      timestamptz NOT NULL, -- since when all is told as it is
    ends_at      timestamptz,          -- end of the last occurrence; null without any
    PRIMARY KEY (happening_id, source_id, of_id)
);

-- What may be over: a source that no longer shows a happening without dates ends it.
CREATE INDEX shown_ended ON shown (coalesce(ends_at, stale), happening_id);

-- What was merged into another one.
CREATE TABLE merged (
    happening_id uuid PRIMARY KEY,
    into_id      uuid NOT NULL
);

-- Happenings that were items of a feed and left it: their streams are still there.
CREATE TABLE former (
    happening_id uuid NOT NULL,
    feed_id      uuid NOT NULL,
    PRIMARY KEY (happening_id, feed_id)
);

-- The feedback to retired items, by UTC day.
CREATE TABLE retired_feedback (
    feed_id      uuid NOT NULL,
    organization uuid NOT NULL,
    day          date NOT NULL,
    rating       text NOT NULL,
    count        bigint NOT NULL,
    PRIMARY KEY (feed_id, organization, day, rating)
);

-- The last retirement of happenings that these tables have applied.
CREATE TABLE retirement (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    revision  bigint NOT NULL
);

CREATE TABLE attachments (
    feed_id   uuid NOT NULL,
    source_id uuid NOT NULL,
    PRIMARY KEY (feed_id, source_id)
);

CREATE TABLE feedback (
    id           uuid PRIMARY KEY,
    item_id      uuid NOT NULL,
    feed_id      uuid NOT NULL,
    organization uuid NOT NULL,
    rating       text NOT NULL,
    comment      text NOT NULL,
    given_at     timestamptz NOT NULL
);

CREATE INDEX feedback_of_feed ON feedback (feed_id, item_id);
