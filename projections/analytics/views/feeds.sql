CREATE VIEW analytics.feeds AS
    SELECT f.organization AS organization_id, f.id AS feed_id, f.name AS feed_name, f.enabled, f.created_at,
        (SELECT count(*) FROM feeds.associations a WHERE a.feed_id = f.id) AS sources,
        (SELECT count(*) FROM feeds.shares s WHERE s.feed_id = f.id) AS readers,
        i.items, i.upcoming, i.last_added_at, f.changed_sequence
    FROM feeds.feeds f CROSS JOIN LATERAL (
        SELECT count(*) AS items, max(added_at) AS last_added_at, count(*) FILTER (WHERE EXISTS (
            SELECT FROM items.occurrences o WHERE o.item_id = i.id AND o.starts_at > now())) AS upcoming
        FROM items.items i WHERE i.feed_id = f.id) i
    WHERE f.feed_type = 'event';
COMMENT ON VIEW analytics.feeds IS 'Event feeds as they are now.';
COMMENT ON COLUMN analytics.feeds.organization_id IS 'owner of the feed';
COMMENT ON COLUMN analytics.feeds.feed_id IS 'the feed';
COMMENT ON COLUMN analytics.feeds.feed_name IS 'the feed''s present name';
COMMENT ON COLUMN analytics.feeds.enabled IS 'whether it gets new items';
COMMENT ON COLUMN analytics.feeds.created_at IS 'when it was created';
COMMENT ON COLUMN analytics.feeds.sources IS 'how many sources fill it';
COMMENT ON COLUMN analytics.feeds.readers IS 'how many other organizations it is shared with';
COMMENT ON COLUMN analytics.feeds.items IS 'how many items it has';
COMMENT ON COLUMN analytics.feeds.upcoming IS 'how many of them have an occurrence that begins after now';
COMMENT ON COLUMN analytics.feeds.last_added_at IS 'when the newest item came into it';
COMMENT ON COLUMN analytics.feeds.changed_sequence IS 'a number that only grows, higher with each change of the row: the place in the log of the event that changed it last. Its items don''t raise it';
