CREATE VIEW analytics.success_rates AS
    SELECT d.organization AS organization_id, d.id AS destination_id, d.name AS destination_name, p.days AS last_days,
        coalesce(t.succeeded, 0) AS succeeded, coalesce(t.failed, 0) AS failed,
        round(t.succeeded / nullif(t.succeeded + t.failed, 0)::numeric, 4) AS success_rate,
        coalesce(a.attempts, 0) AS attempts, coalesce(a.failed, 0) AS failed_attempts,
        round((a.attempts - a.failed) / a.attempts::numeric, 4) AS attempt_success_rate,
        d.external_id AS destination_external_id, o.name AS organization_name,
        d.deleted_at AS destination_deleted_at
    FROM (VALUES (1), (7), (30), (90)) AS p (days)
    CROSS JOIN destinations.all_destinations d
    LEFT JOIN organizations.organizations o ON o.id = d.organization
    LEFT JOIN LATERAL (SELECT sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed FROM deliveries.all_tallies
        WHERE destination = d.id AND day > (now() AT TIME ZONE 'UTC')::date - p.days) t ON true
    LEFT JOIN (SELECT w.days, o.* FROM (VALUES (1), (7), (30), (90)) AS w (days)
        CROSS JOIN LATERAL (SELECT destination, count(*) AS attempts, count(failure_reason) AS failed
            FROM deliveries.all_attempts WHERE day > (now() AT TIME ZONE 'UTC')::date - w.days
            GROUP BY 1) o) a ON a.destination = d.id AND a.days = p.days
    WHERE t.succeeded + t.failed > 0 OR a.attempts > 0;
COMMENT ON VIEW analytics.success_rates IS 'Which part of the attempts, and of the deliveries that came to an end, succeeded, by destination, over the last 1, 7, 30 and 90 UTC days with today. For rates by day or event type divide the columns of deliveries_by_day. A filter by last_days reads these days only.';
COMMENT ON COLUMN analytics.success_rates.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.success_rates.destination_id IS 'where the deliveries went to';
COMMENT ON COLUMN analytics.success_rates.destination_name IS 'the destination''s present name';
COMMENT ON COLUMN analytics.success_rates.last_days IS '1, 7, 30 or 90: UTC days, today included, on which deliveries were created and attempts made';
COMMENT ON COLUMN analytics.success_rates.succeeded IS 'deliveries that the endpoint took';
COMMENT ON COLUMN analytics.success_rates.failed IS 'deliveries that failed permanently';
COMMENT ON COLUMN analytics.success_rates.success_rate IS 'of deliveries that ended: succeeded / (succeeded + failed), 0 to 1; superseded, discarded and pending ones don''t count; null where none ended';
COMMENT ON COLUMN analytics.success_rates.attempts IS 'attempts, of pending deliveries too';
COMMENT ON COLUMN analytics.success_rates.failed_attempts IS 'those that failed';
COMMENT ON COLUMN analytics.success_rates.attempt_success_rate IS 'of attempts: those that succeeded, 0 to 1; null where none was made';
COMMENT ON COLUMN analytics.success_rates.destination_external_id IS 'the destination''s present external id; null if it has none';
COMMENT ON COLUMN analytics.success_rates.organization_name IS 'the organization''s present name';
COMMENT ON COLUMN analytics.success_rates.destination_deleted_at IS 'when the destination was deleted; null if it is there';
