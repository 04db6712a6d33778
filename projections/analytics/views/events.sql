CREATE VIEW analytics.events AS
    SELECT p.id AS event_id, p.type AS event_type, p.organization AS organization_id, o.name AS organization_name,
        p.source, p.subject, p.time, p.feed_type, p.feed_id, f.name AS feed_name, p.published_at,
        lpad((date_part('epoch', date_trunc('second', p.published_at))::bigint * 1000000
            + date_part('microseconds', p.published_at)::bigint % 1000000)::text, 20, '0') AS sequence, p.changed_sequence
    FROM publications.publications p LEFT JOIN organizations.organizations o ON o.id = p.organization
    LEFT JOIN feeds.feeds f ON f.id = p.feed_id WHERE NOT NOTICE(p.type);
COMMENT ON VIEW analytics.events IS 'Published events, a row each, without their data; retired ones are gone, and notices are no published events. A filter by published_at or changed_sequence goes by an index.';
COMMENT ON COLUMN analytics.events.event_id IS 'key: the id of the event';
COMMENT ON COLUMN analytics.events.event_type IS 'such as news.item.added';
COMMENT ON COLUMN analytics.events.organization_id IS 'the publisher; null if the event belongs to a feed alone';
COMMENT ON COLUMN analytics.events.organization_name IS 'its present name';
COMMENT ON COLUMN analytics.events.source IS 'of the event, as published';
COMMENT ON COLUMN analytics.events.subject IS 'what it is about, as published; null if it names nothing';
COMMENT ON COLUMN analytics.events.time IS 'the time that the publisher named';
COMMENT ON COLUMN analytics.events.feed_type IS 'news or event; null without a feed';
COMMENT ON COLUMN analytics.events.feed_id IS 'its feed; null if it has none';
COMMENT ON COLUMN analytics.events.feed_name IS 'the feed''s present name; null for feeds that are owned elsewhere';
COMMENT ON COLUMN analytics.events.published_at IS 'when it was recorded';
COMMENT ON COLUMN analytics.events.sequence IS 'its place among all events, as webhooks have it';
COMMENT ON COLUMN analytics.events.changed_sequence IS 'a number that only grows, higher with each change: the place in the log of the event that made the row what it is';
