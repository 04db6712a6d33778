-- What was published.
CREATE TABLE publications (
    id           uuid PRIMARY KEY,
    organization uuid,                 -- the publisher; the only one to see an event without a feed
    type         text NOT NULL,
    source       text NOT NULL,
    subject      text,
    time         timestamptz NOT NULL,
    feed_type    text,
    feed_id      uuid,
    published_at timestamptz NOT NULL, -- when the store recorded it
    data         bytea NOT NULL,       -- JSON, byte for byte as published
    changed_sequence bigint NOT NULL DEFAULT 0 -- the place of its event in the log
);
-- For backfills, which go by the time that the event names: callers know no other.
-- A backfill goes through the events of a feed, or of an organization without a feed, by their time.
CREATE INDEX ON publications (feed_id, time, id) WHERE feed_id IS NOT NULL;
CREATE INDEX ON publications (organization, time, id) WHERE feed_id IS NULL;
-- For people who look for events: of a type, or by what they are about.
CREATE INDEX ON publications (feed_id, type, time, id) WHERE feed_id IS NOT NULL;
CREATE INDEX ON publications (organization, type, time, id) WHERE feed_id IS NULL;
-- By a digest, because a subject may be longer than an index takes.
CREATE INDEX ON publications (hashtextextended(subject, 0), time, id) WHERE subject IS NOT NULL;
-- For the retirement of what is old, and for analysts, who ask for days.
CREATE INDEX ON publications (published_at, id);

-- For analysts, who copy what is new.
CREATE INDEX ON publications (changed_sequence);

-- The last event of the stream of retirements that is applied. The row is there once there was one.
CREATE TABLE retirement (
    singleton boolean PRIMARY KEY DEFAULT true CHECK (singleton),
    revision  bigint NOT NULL
);
