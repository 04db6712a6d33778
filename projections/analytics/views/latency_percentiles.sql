CREATE VIEW analytics.latency_percentiles AS
    SELECT a.day, a.organization AS organization_id, a.destination AS destination_id,
        n.name AS destination_name, count(*) AS attempts,
        round((percentile_cont(0.5) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3) AS p50_ms,
        round((percentile_cont(0.9) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3) AS p90_ms,
        round((percentile_cont(0.95) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3) AS p95_ms,
        round((percentile_cont(0.99) WITHIN GROUP (ORDER BY a.duration_micros) / 1000)::numeric, 3) AS p99_ms,
        round(max(a.duration_micros)::numeric / 1000, 3) AS max_ms,
        n.external_id AS destination_external_id, o.name AS organization_name,
        n.deleted_at AS destination_deleted_at
    FROM deliveries.all_attempts a LEFT JOIN destinations.all_destinations n ON n.id = a.destination
    LEFT JOIN organizations.organizations o ON o.id = a.organization
    GROUP BY 1, a.destination, a.organization, n.name, n.external_id, n.deleted_at, o.name;
COMMENT ON VIEW analytics.latency_percentiles IS 'How long endpoints took to answer, by UTC day and destination: from the beginning of an attempt to its outcome, failed attempts and timeouts included. A filter by day goes by an index; the whole history takes time.';
COMMENT ON COLUMN analytics.latency_percentiles.day IS 'UTC day of the attempts';
COMMENT ON COLUMN analytics.latency_percentiles.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.latency_percentiles.destination_id IS 'where the attempts went to';
COMMENT ON COLUMN analytics.latency_percentiles.destination_name IS 'the destination''s present name';
COMMENT ON COLUMN analytics.latency_percentiles.attempts IS 'how many there were';
COMMENT ON COLUMN analytics.latency_percentiles.p50_ms IS 'half of the attempts took no longer, in milliseconds';
COMMENT ON COLUMN analytics.latency_percentiles.p90_ms IS '90 % of the attempts took no longer, in milliseconds';
COMMENT ON COLUMN analytics.latency_percentiles.p95_ms IS '95 % of the attempts took no longer, in milliseconds';
COMMENT ON COLUMN analytics.latency_percentiles.p99_ms IS '99 % of the attempts took no longer, in milliseconds';
COMMENT ON COLUMN analytics.latency_percentiles.max_ms IS 'the slowest attempt, in milliseconds';
COMMENT ON COLUMN analytics.latency_percentiles.destination_external_id IS 'the destination''s present external id; null if it has none';
COMMENT ON COLUMN analytics.latency_percentiles.organization_name IS 'the organization''s present name';
COMMENT ON COLUMN analytics.latency_percentiles.destination_deleted_at IS 'when the destination was deleted; null if it is there';
