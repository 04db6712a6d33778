CREATE VIEW analytics.destinations AS
    SELECT d.organization AS organization_id, d.id AS destination_id, d.name AS destination_name, d.status, d.created_at,
        h.consecutive_failures, h.streak_started_at, h.last_success_at, h.last_failure_at,
        t.pending, p.waiting, p.retrying, p.delivering, t.succeeded, t.failed,
        d.external_id AS destination_external_id, o.name AS organization_name, d.changed_sequence
    FROM destinations.destinations d LEFT JOIN health.health h ON h.destination = d.id
    LEFT JOIN organizations.organizations o ON o.id = d.organization
    LEFT JOIN (SELECT destination, sum(total - succeeded - failed - superseded - discarded)::bigint AS pending, sum(succeeded)::bigint AS succeeded, sum(failed)::bigint AS failed
        FROM deliveries.all_tallies GROUP BY destination) t ON t.destination = d.id
    LEFT JOIN PENDING(destination) p ON p.destination = d.id;
COMMENT ON VIEW analytics.destinations IS 'Destinations as they are now, and how they answer.';
COMMENT ON COLUMN analytics.destinations.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.destinations.destination_id IS 'where deliveries go to';
COMMENT ON COLUMN analytics.destinations.destination_name IS 'the destination''s present name';
COMMENT ON COLUMN analytics.destinations.status IS 'enabled, disabled or auto_disabled';
COMMENT ON COLUMN analytics.destinations.created_at IS 'when it was created';
COMMENT ON COLUMN analytics.destinations.consecutive_failures IS 'failed attempts in a row';
COMMENT ON COLUMN analytics.destinations.streak_started_at IS 'when the first of these failed; null where the last attempt succeeded';
COMMENT ON COLUMN analytics.destinations.last_success_at IS 'when it last took a delivery';
COMMENT ON COLUMN analytics.destinations.last_failure_at IS 'when it last failed since then';
COMMENT ON COLUMN analytics.destinations.pending IS 'deliveries that are not at an end; null where it never had any';
COMMENT ON COLUMN analytics.destinations.waiting IS 'of the pending ones, those that were not tried yet; null where none is pending';
COMMENT ON COLUMN analytics.destinations.retrying IS 'those that failed and are tried again';
COMMENT ON COLUMN analytics.destinations.delivering IS 'those that are being sent now';
COMMENT ON COLUMN analytics.destinations.succeeded IS 'deliveries that the endpoint took';
COMMENT ON COLUMN analytics.destinations.failed IS 'deliveries that failed for good';
COMMENT ON COLUMN analytics.destinations.destination_external_id IS 'the destination''s present external id; null if it has none';
COMMENT ON COLUMN analytics.destinations.organization_name IS 'the owner''s present name';
COMMENT ON COLUMN analytics.destinations.changed_sequence IS 'a number that only grows, higher with each change of the row: the place in the log of the event that changed it last. Counts, failures in a row and the organization''s name don''t raise it';
