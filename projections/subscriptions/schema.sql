-- Subscriptions of destinations.
CREATE TABLE subscriptions (
    id           uuid PRIMARY KEY,
    organization uuid NOT NULL,
    destination  uuid NOT NULL,
    external_id  text,
    event_types  text[] NOT NULL,
    scope_kind   text NOT NULL,      -- all, feed_type, feeds
    feed_type    text,               -- of the scope feed_type
    feeds        jsonb NOT NULL,     -- pins as declared: [{"feedType", "feedId"}]
    active       boolean NOT NULL,
    created_at   timestamptz NOT NULL,
    updated_at   timestamptz NOT NULL,
    revision     bigint NOT NULL,    -- of the subscription's stream
    reason       text                -- why it is inactive, unless its owner switched it off
);
CREATE INDEX ON subscriptions (destination, created_at, id);

-- The same pins, to be found by their feed.
CREATE TABLE pins (
    feed_id      uuid NOT NULL,
    feed_type    text NOT NULL,
    subscription uuid NOT NULL,
    PRIMARY KEY (feed_id, feed_type, subscription)
);
CREATE INDEX ON pins (subscription);
