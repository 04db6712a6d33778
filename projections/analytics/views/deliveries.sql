CREATE VIEW analytics.deliveries AS
    SELECT d.id AS delivery_id, d.event_id, d.type AS event_type, NOTICE(d.type) AS notice, d.event_time,
        p.published_at, d.organization AS organization_id, o.name AS organization_name,
        d.destination AS destination_id, n.name AS destination_name, n.external_id AS destination_external_id,
        d.feed_type, d.feed_id, d.created_at,
        CASE WHEN d.attempts > 1 THEN coalesce((SELECT min(e.attempted_at) FROM deliveries.earlier_attempts e
            WHERE e.delivery = d.id), d.attempted_at) ELSE d.attempted_at END AS first_attempt_at,
        d.completed_at, d.status AS outcome, d.failure_reason AS reason, d.response_status AS http_status, d.attempts,
        round(d.duration_micros::numeric / 1000, 3) AS duration_ms,
        round(date_part('epoch', d.completed_at - p.published_at)::numeric, 6) AS seconds_to_completion, d.changed_sequence
    FROM deliveries.deliveries d LEFT JOIN publications.publications p ON p.id = d.event_id
    LEFT JOIN organizations.organizations o ON o.id = d.organization
    LEFT JOIN destinations.destinations n ON n.id = d.destination;
COMMENT ON VIEW analytics.deliveries IS 'Deliveries, a row each; those that are retired, or of deleted destinations, are gone. A filter by created_at or delivery_id goes by an index.';
COMMENT ON COLUMN analytics.deliveries.delivery_id IS 'key: the webhook-id';
COMMENT ON COLUMN analytics.deliveries.event_id IS 'the published event: events.event_id; a notice has none there';
COMMENT ON COLUMN analytics.deliveries.event_type IS 'such as news.item.added';
COMMENT ON COLUMN analytics.deliveries.notice IS 'whether it tells of the destination itself, and of no published event';
COMMENT ON COLUMN analytics.deliveries.event_time IS 'the time that the publisher named';
COMMENT ON COLUMN analytics.deliveries.published_at IS 'when the event was recorded; null for retired events';
COMMENT ON COLUMN analytics.deliveries.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.deliveries.organization_name IS 'its present name';
COMMENT ON COLUMN analytics.deliveries.destination_id IS 'where it goes to: destinations.destination_id';
COMMENT ON COLUMN analytics.deliveries.destination_name IS 'its present name';
COMMENT ON COLUMN analytics.deliveries.destination_external_id IS 'its present external id; null if it has none';
COMMENT ON COLUMN analytics.deliveries.feed_type IS 'news or event; null without a feed';
COMMENT ON COLUMN analytics.deliveries.feed_id IS 'feed of the event; null if it has none';
COMMENT ON COLUMN analytics.deliveries.created_at IS 'when it was scheduled';
COMMENT ON COLUMN analytics.deliveries.first_attempt_at IS 'when the first attempt began; null before';
COMMENT ON COLUMN analytics.deliveries.completed_at IS 'when it got its final status; null while it is pending';
COMMENT ON COLUMN analytics.deliveries.outcome IS 'pending, succeeded, failed, superseded or discarded';
COMMENT ON COLUMN analytics.deliveries.reason IS 'of the last attempt, if that failed, such as timeout';
COMMENT ON COLUMN analytics.deliveries.http_status IS 'of the last answer; null without one';
COMMENT ON COLUMN analytics.deliveries.attempts IS 'how many were made';
COMMENT ON COLUMN analytics.deliveries.duration_ms IS 'of the last attempt, in milliseconds';
COMMENT ON COLUMN analytics.deliveries.seconds_to_completion IS 'from the recording of the event to the final status';
COMMENT ON COLUMN analytics.deliveries.changed_sequence IS 'a number that only grows, higher with each change: the place in the log of the event that made the row what it is';
