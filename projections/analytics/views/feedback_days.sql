CREATE VIEW analytics.feedback_days AS
    SELECT g.day, g.organization AS organization_id, g.feed_id, f.name AS feed_name, g.rating, sum(g.count)::bigint AS count, o.name AS organization_name
    FROM (SELECT (given_at AT TIME ZONE 'UTC')::date AS day, organization, feed_id, rating, count(*) AS count
            FROM items.feedback GROUP BY 1, 2, 3, 4
        UNION ALL SELECT day, organization, feed_id, rating, count FROM items.retired_feedback) g
    LEFT JOIN feeds.feeds f ON f.id = g.feed_id
    LEFT JOIN organizations.organizations o ON o.id = g.organization
    GROUP BY g.day, g.organization, g.feed_id, f.name, g.rating, o.name;
COMMENT ON VIEW analytics.feedback_days IS 'What readers said about items, by UTC day, retired items included. That of a deleted feed is gone with it.';
COMMENT ON COLUMN analytics.feedback_days.day IS 'UTC day';
COMMENT ON COLUMN analytics.feedback_days.organization_id IS 'the organization that gave it';
COMMENT ON COLUMN analytics.feedback_days.feed_id IS 'the feed that showed the items';
COMMENT ON COLUMN analytics.feedback_days.feed_name IS 'the feed''s present name';
COMMENT ON COLUMN analytics.feedback_days.rating IS 'the rating, as given';
COMMENT ON COLUMN analytics.feedback_days.count IS 'how many there are';
COMMENT ON COLUMN analytics.feedback_days.organization_name IS 'the organization''s present name';
