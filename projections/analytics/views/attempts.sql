CREATE VIEW analytics.attempts AS
    SELECT a.delivery AS delivery_id, a.number, a.event_id, a.type AS event_type, NOTICE(a.type) AS notice,
        a.organization AS organization_id, o.name AS organization_name,
        a.destination AS destination_id, n.name AS destination_name, n.external_id AS destination_external_id,
        a.created_at AS delivery_created_at, a.attempted_at, a.trigger,
        CASE WHEN a.failure_reason IS NULL THEN 'succeeded' ELSE 'failed' END AS outcome, a.failure_reason AS reason,
        a.response_status AS http_status, round(a.duration_micros::numeric / 1000, 3) AS duration_ms,
        a.sequence AS changed_sequence
    FROM (SELECT d.id AS delivery, d.attempts AS number, d.event_id, d.type, d.organization, d.destination, d.created_at,
            d.attempted_at, d.trigger, d.failure_reason, d.response_status, d.duration_micros, d.sequence
        FROM deliveries.deliveries d WHERE d.attempts > 0
        UNION ALL SELECT e.delivery, e.number, d.event_id, d.type, d.organization, d.destination, d.created_at,
            e.attempted_at, e.trigger, e.failure_reason, e.response_status, e.duration_micros, e.sequence
        FROM deliveries.earlier_attempts e JOIN deliveries.deliveries d ON d.id = e.delivery) a
    LEFT JOIN organizations.organizations o ON o.id = a.organization
    LEFT JOIN destinations.destinations n ON n.id = a.destination;
COMMENT ON VIEW analytics.attempts IS 'Attempts, a row each; those of retired deliveries and deleted destinations are gone. A filter by delivery_created_at or delivery_id goes by an index: an attempt follows the creation of its delivery within 4 days, but for replays.';
COMMENT ON COLUMN analytics.attempts.delivery_id IS 'key, with number: deliveries.delivery_id';
COMMENT ON COLUMN analytics.attempts.number IS 'in its delivery, from 1';
COMMENT ON COLUMN analytics.attempts.event_id IS 'the published event';
COMMENT ON COLUMN analytics.attempts.event_type IS 'such as news.item.added';
COMMENT ON COLUMN analytics.attempts.notice IS 'whether the delivery tells of the destination itself';
COMMENT ON COLUMN analytics.attempts.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.attempts.organization_name IS 'its present name';
COMMENT ON COLUMN analytics.attempts.destination_id IS 'where it went to: destinations.destination_id';
COMMENT ON COLUMN analytics.attempts.destination_name IS 'its present name';
COMMENT ON COLUMN analytics.attempts.destination_external_id IS 'its present external id; null if it has none';
COMMENT ON COLUMN analytics.attempts.delivery_created_at IS 'when the delivery was scheduled';
COMMENT ON COLUMN analytics.attempts.attempted_at IS 'when it began';
COMMENT ON COLUMN analytics.attempts.trigger IS 'automatic, or a replay';
COMMENT ON COLUMN analytics.attempts.outcome IS 'succeeded or failed';
COMMENT ON COLUMN analytics.attempts.reason IS 'of a failure, such as timeout';
COMMENT ON COLUMN analytics.attempts.http_status IS 'of the answer; null without one';
COMMENT ON COLUMN analytics.attempts.duration_ms IS 'in milliseconds';
COMMENT ON COLUMN analytics.attempts.changed_sequence IS 'a number that only grows, higher with each change: the place in the log of the event that made the row what it is';
