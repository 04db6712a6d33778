CREATE VIEW analytics.items AS
    SELECT f.organization AS organization_id, i.feed_id, f.name AS feed_name, i.id AS item_id, i.happening_id AS event_id,
        (convert_from(i.current, 'UTF8') || '}')::json ->> 'title' AS title, i.source_id, s.type AS source_type, i.added_at,
        o.occurrences, o.first_starts_at, o.last_starts_at, o.next_starts_at,
        (SELECT CASE WHEN bool_and(w.stale IS NOT NULL) THEN max(w.stale) END
            FROM items.shown w WHERE w.happening_id = i.happening_id) AS stale_since,
        (convert_from(i.current, 'UTF8') || '}')::json #>> '{time,timezone}' AS timezone, i.changed_sequence
    FROM items.items i JOIN feeds.feeds f ON f.id = i.feed_id LEFT JOIN sources.sources s ON s.id = i.source_id
    CROSS JOIN LATERAL (
        SELECT count(*) AS occurrences, min(starts_at) AS first_starts_at, max(starts_at) AS last_starts_at,
            min(starts_at) FILTER (WHERE starts_at > now()) AS next_starts_at
        FROM items.occurrences WHERE item_id = i.id) o;
COMMENT ON VIEW analytics.items IS 'Items that are in a feed now, each by itself.';
COMMENT ON COLUMN analytics.items.organization_id IS 'owner of the feed';
COMMENT ON COLUMN analytics.items.feed_id IS 'the feed';
COMMENT ON COLUMN analytics.items.feed_name IS 'the feed''s present name';
COMMENT ON COLUMN analytics.items.item_id IS 'the item, of this feed alone';
COMMENT ON COLUMN analytics.items.event_id IS 'the underlying event, the same in every feed that shows it';
COMMENT ON COLUMN analytics.items.title IS 'as it is shown';
COMMENT ON COLUMN analytics.items.source_id IS 'the source whose view of the happening the item shows';
COMMENT ON COLUMN analytics.items.source_type IS 'site, sitemap, siteIndexPage, instagram, facebook, tiktok or twitter';
COMMENT ON COLUMN analytics.items.added_at IS 'when it came into the feed';
COMMENT ON COLUMN analytics.items.occurrences IS 'how many dates it has, past ones included';
COMMENT ON COLUMN analytics.items.first_starts_at IS 'start of the first; null without any';
COMMENT ON COLUMN analytics.items.last_starts_at IS 'start of the last';
COMMENT ON COLUMN analytics.items.next_starts_at IS 'start of the first that begins after now; null where all have begun';
COMMENT ON COLUMN analytics.items.stale_since IS 'since when no source shows the event any more, which is no cancellation; null where one does';
COMMENT ON COLUMN analytics.items.timezone IS 'of its dates, such as Europe/Rome: next_starts_at AT TIME ZONE timezone is the local time';
COMMENT ON COLUMN analytics.items.changed_sequence IS 'a number that only grows, higher with each change of the row: the place in the log of the event that changed it last. Names of feed and source, and the clock, don''t raise it';
