CREATE VIEW analytics.items_by_source_and_feed AS
    SELECT f.organization AS organization_id, i.feed_id, f.name AS feed_name, f.feed_type, i.source_id, s.type AS source_type,
        coalesce(nullif(s.handle, ''), substring(s.url FROM '^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#]*@)?([^/?#:]+)')) AS source,
        count(*) AS items, min(i.added_at) AS first_added_at, max(i.added_at) AS last_added_at
    FROM items.items i LEFT JOIN feeds.feeds f ON f.id = i.feed_id LEFT JOIN sources.sources s ON s.id = i.source_id
    GROUP BY i.feed_id, f.organization, f.name, f.feed_type, i.source_id, s.type, s.handle, s.url;
COMMENT ON VIEW analytics.items_by_source_and_feed IS 'Items that are in a feed now, by the source that they are shown from.';
COMMENT ON COLUMN analytics.items_by_source_and_feed.organization_id IS 'owner of the feed';
COMMENT ON COLUMN analytics.items_by_source_and_feed.feed_id IS 'the feed';
COMMENT ON COLUMN analytics.items_by_source_and_feed.feed_name IS 'the feed''s present name';
COMMENT ON COLUMN analytics.items_by_source_and_feed.feed_type IS 'event or news';
COMMENT ON COLUMN analytics.items_by_source_and_feed.source_id IS 'the source whose view of the happening the item shows';
COMMENT ON COLUMN analytics.items_by_source_and_feed.source_type IS 'site, sitemap, siteIndexPage, instagram, facebook, tiktok or twitter';
COMMENT ON COLUMN analytics.items_by_source_and_feed.source IS 'the account''s handle, or the host of the page. Whole addresses are left out: some hold keys';
COMMENT ON COLUMN analytics.items_by_source_and_feed.items IS 'how many there are';
COMMENT ON COLUMN analytics.items_by_source_and_feed.first_added_at IS 'when the oldest of them came into the feed';
COMMENT ON COLUMN analytics.items_by_source_and_feed.last_added_at IS 'when the newest of them came into the feed';
