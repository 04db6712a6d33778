CREATE VIEW analytics.failures_by_reason AS
    SELECT a.day, a.organization AS organization_id, a.destination AS destination_id,
        n.name AS destination_name, a.failure_reason AS reason, a.response_status AS http_status,
        count(*) AS attempts, count(DISTINCT a.delivery) + sum(a.first) AS deliveries, max(a.attempted_at) AS last_attempt_at,
        n.external_id AS destination_external_id, o.name AS organization_name,
        n.deleted_at AS destination_deleted_at
    FROM deliveries.all_attempts a LEFT JOIN destinations.all_destinations n ON n.id = a.destination
    LEFT JOIN organizations.organizations o ON o.id = a.organization
    WHERE a.failure_reason IS NOT NULL
    GROUP BY 1, a.destination, a.organization, n.name, n.external_id, n.deleted_at, o.name, a.failure_reason, a.response_status;
COMMENT ON VIEW analytics.failures_by_reason IS 'Failed attempts by UTC day, destination and reason. A filter by day goes by an index; the whole history takes time.';
COMMENT ON COLUMN analytics.failures_by_reason.day IS 'UTC day of the attempts';
COMMENT ON COLUMN analytics.failures_by_reason.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.failures_by_reason.destination_id IS 'destination of the attempts';
COMMENT ON COLUMN analytics.failures_by_reason.destination_name IS 'current name of the destination';
COMMENT ON COLUMN analytics.failures_by_reason.reason IS 'the stable name of the failure, such as http_status, timeout or dns';
COMMENT ON COLUMN analytics.failures_by_reason.http_status IS 'status of the response; null if there was none';
COMMENT ON COLUMN analytics.failures_by_reason.attempts IS 'attempts that failed so';
COMMENT ON COLUMN analytics.failures_by_reason.deliveries IS 'deliveries that these attempts belong to';
COMMENT ON COLUMN analytics.failures_by_reason.last_attempt_at IS 'time of the last of these attempts';
COMMENT ON COLUMN analytics.failures_by_reason.destination_external_id IS 'the destination''s present external id; null if it has none';
COMMENT ON COLUMN analytics.failures_by_reason.organization_name IS 'the organization''s present name';
COMMENT ON COLUMN analytics.failures_by_reason.destination_deleted_at IS 'when the destination was deleted; null if it is there';
