CREATE VIEW analytics.destination_days AS
    SELECT f.day, n.organization AS organization_id, n.id AS destination_id, n.name AS destination_name,
        f.deliveries, f.succeeded, f.failed, f.pending, coalesce(p.waiting, 0) AS waiting,
        coalesce(p.retrying, 0) AS retrying, coalesce(p.delivering, 0) AS delivering, round(f.succeeded / nullif(f.succeeded + f.failed, 0)::numeric, 4) AS success_rate,
        f.attempts, f.failed_attempts,
        round((f.attempts - f.failed_attempts) / nullif(f.attempts, 0)::numeric, 4) AS attempt_success_rate, f.p50_ms, f.p95_ms, f.p99_ms,
        n.external_id AS destination_external_id, o.name AS organization_name, n.deleted_at AS destination_deleted_at
    FROM (SELECT destination, day, sum(deliveries)::bigint AS deliveries, sum(succeeded)::bigint AS succeeded,
            sum(failed)::bigint AS failed, sum(pending)::bigint AS pending, sum(attempts)::bigint AS attempts,
            sum(failed_attempts)::bigint AS failed_attempts, max(p50_ms) AS p50_ms, max(p95_ms) AS p95_ms, max(p99_ms) AS p99_ms
        FROM (SELECT destination, day, total AS deliveries, succeeded, failed,
                total - succeeded - failed - superseded - discarded AS pending,
                0 AS attempts, 0 AS failed_attempts, NULL::numeric AS p50_ms, NULL::numeric AS p95_ms, NULL::numeric AS p99_ms
            FROM deliveries.all_tallies WHERE total > 0
            UNION ALL SELECT a.destination, a.day, 0, 0, 0, 0, count(*), count(a.failure_reason),
                round((percentile_cont(0.5) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3),
                round((percentile_cont(0.95) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3),
                round((percentile_cont(0.99) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3)
            FROM deliveries.all_attempts a GROUP BY 1, 2) counted
        GROUP BY destination, day) f
    LEFT JOIN PENDING(destination, day) p ON p.destination = f.destination AND p.day = f.day
    JOIN destinations.all_destinations n ON n.id = f.destination
    LEFT JOIN organizations.organizations o ON o.id = n.organization;
COMMENT ON VIEW analytics.destination_days IS 'A row per destination and UTC day: the deliveries created on it, and the attempts made on it. A filter by day goes by an index; the whole history takes time.';
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
