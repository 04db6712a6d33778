CREATE VIEW analytics.feedback AS
    SELECT g.given_at, g.organization AS organization_id, g.feed_id, f.name AS feed_name, f.feed_type, g.item_id,
        i.source_id, s.type AS source_type, g.rating, g.comment
    FROM items.feedback g LEFT JOIN feeds.feeds f ON f.id = g.feed_id LEFT JOIN items.items i ON i.id = g.item_id
    LEFT JOIN sources.sources s ON s.id = i.source_id;
COMMENT ON VIEW analytics.feedback IS 'What readers said about items, one row each time. That of a deleted feed, and of retired items, is gone with it; feedback_days counts the latter.';
COMMENT ON COLUMN analytics.feedback.given_at IS 'when';
COMMENT ON COLUMN analytics.feedback.organization_id IS 'the organization that gave it';
COMMENT ON COLUMN analytics.feedback.feed_id IS 'the feed that showed the item';
COMMENT ON COLUMN analytics.feedback.feed_name IS 'the feed''s present name';
COMMENT ON COLUMN analytics.feedback.feed_type IS 'event or news';
COMMENT ON COLUMN analytics.feedback.item_id IS 'the item';
COMMENT ON COLUMN analytics.feedback.source_id IS 'the source that the item is shown from; null where the item is no longer in the feed';
COMMENT ON COLUMN analytics.feedback.source_type IS 'type of that source';
COMMENT ON COLUMN analytics.feedback.rating IS 'the rating, as given';
COMMENT ON COLUMN analytics.feedback.comment IS 'free text of the reader; empty where there is none';
