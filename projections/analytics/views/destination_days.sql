CREATE VIEW analytics.destination_days AS
    SELECT coalesce(t.day, a.day) AS day, n.organization AS organization_id, n.id AS destination_id, n.name AS destination_name,
        coalesce(t.deliveries, 0) AS deliveries, coalesce(t.succeeded, 0) AS succeeded, coalesce(t.failed, 0) AS failed,
        coalesce(t.pending, 0) AS pending, coalesce(p.waiting, 0) AS waiting,
        coalesce(p.retrying, 0) AS retrying, coalesce(p.delivering, 0) AS delivering, round(t.succeeded / nullif(t.succeeded + t.failed, 0)::numeric, 4) AS success_rate,
        coalesce(a.attempts, 0) AS attempts, coalesce(a.failed_attempts, 0) AS failed_attempts,
        round((a.attempts - a.failed_attempts) / a.attempts::numeric, 4) AS attempt_success_rate, a.p50_ms, a.p95_ms, a.p99_ms,
        n.external_id AS destination_external_id, o.name AS organization_name,
        n.deleted_at AS destination_deleted_at
    FROM (SELECT destination, day, sum(total)::bigint AS deliveries, sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed,
            sum(total - succeeded - failed - superseded - discarded)::bigint AS pending
        FROM deliveries.all_tallies GROUP BY destination, day HAVING sum(total) > 0) t
    FULL JOIN (SELECT a.destination, a.day, count(*) AS attempts,
            count(a.failure_reason) AS failed_attempts,
            round((percentile_cont(0.5) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3) AS p50_ms,
            round((percentile_cont(0.95) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3) AS p95_ms,
            round((percentile_cont(0.99) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3) AS p99_ms
        FROM deliveries.all_attempts a GROUP BY 1, 2) a
        ON a.destination = t.destination AND a.day = t.day
    LEFT JOIN PENDING(destination, day) p ON p.destination = t.destination AND p.day = t.day
    JOIN destinations.all_destinations n ON n.id = coalesce(t.destination, a.destination)
    LEFT JOIN organizations.organizations o ON o.id = n.organization;
COMMENT ON VIEW analytics.destination_days IS 'A row per destination and UTC day: the deliveries created on it, and the attempts made on it. It reads all attempts: a long history takes time.';
COMMENT ON COLUMN analytics.destination_days.day IS 'UTC day';
COMMENT ON COLUMN analytics.destination_days.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.destination_days.destination_id IS 'the destination';
COMMENT ON COLUMN analytics.destination_days.destination_name IS 'its current name';
COMMENT ON COLUMN analytics.destination_days.deliveries IS 'deliveries that were created on the day';
COMMENT ON COLUMN analytics.destination_days.succeeded IS 'those that have succeeded';
COMMENT ON COLUMN analytics.destination_days.failed IS 'those that failed permanently';
COMMENT ON COLUMN analytics.destination_days.pending IS 'those that have no final status yet';
COMMENT ON COLUMN analytics.destination_days.waiting IS 'of the pending ones, those that were not tried yet';
COMMENT ON COLUMN analytics.destination_days.retrying IS 'those that failed and are tried again';
COMMENT ON COLUMN analytics.destination_days.delivering IS 'those that are being sent now';
COMMENT ON COLUMN analytics.destination_days.success_rate IS 'of deliveries that ended: succeeded of succeeded and failed, from 0 to 1; null if there is neither';
COMMENT ON COLUMN analytics.destination_days.attempts IS 'attempts that were made on the day';
COMMENT ON COLUMN analytics.destination_days.failed_attempts IS 'those that failed';
COMMENT ON COLUMN analytics.destination_days.attempt_success_rate IS 'of attempts: those that succeeded, from 0 to 1; null if none was made';
COMMENT ON COLUMN analytics.destination_days.p50_ms IS 'median duration of the attempts in milliseconds; null without attempts';
COMMENT ON COLUMN analytics.destination_days.p95_ms IS '95th percentile of the duration in milliseconds; null without attempts';
COMMENT ON COLUMN analytics.destination_days.p99_ms IS '99th percentile of the duration in milliseconds; null without attempts';
COMMENT ON COLUMN analytics.destination_days.destination_external_id IS 'the destination''s present external id; null if it has none';
COMMENT ON COLUMN analytics.destination_days.organization_name IS 'the organization''s present name';
COMMENT ON COLUMN analytics.destination_days.destination_deleted_at IS 'when the destination was deleted; null if it is there';
