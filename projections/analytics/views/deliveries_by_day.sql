CREATE VIEW analytics.deliveries_by_day AS
    SELECT t.day, d.organization AS organization_id, t.destination AS destination_id, d.name AS destination_name, t.type AS event_type,
        sum(t.total)::bigint AS deliveries, sum(t.succeeded)::bigint AS succeeded, sum(t.failed)::bigint AS failed,
        sum(t.superseded)::bigint AS superseded, sum(t.discarded)::bigint AS discarded,
        sum(t.total - t.succeeded - t.failed - t.superseded - t.discarded)::bigint AS pending,
        coalesce(p.waiting, 0) AS waiting, coalesce(p.retrying, 0) AS retrying, coalesce(p.delivering, 0) AS delivering,
        d.external_id AS destination_external_id, NOTICE(t.type) AS notice, o.name AS organization_name,
        d.deleted_at AS destination_deleted_at
    FROM deliveries.all_tallies t LEFT JOIN destinations.all_destinations d ON d.id = t.destination
    LEFT JOIN organizations.organizations o ON o.id = d.organization
    LEFT JOIN PENDING(destination, day, type) p ON p.destination = t.destination AND p.day = t.day AND p.type = t.type
    GROUP BY t.day, t.destination, d.organization, d.name, d.external_id, d.deleted_at, o.name, t.type, p.waiting, p.retrying, p.delivering
    HAVING sum(t.total) > 0;
COMMENT ON VIEW analytics.deliveries_by_day IS 'Deliveries by UTC day of creation, destination and event type, counted by the status that they have now. Those of deleted destinations count on; what waited for one is discarded.';
COMMENT ON COLUMN analytics.deliveries_by_day.day IS 'UTC day on which the deliveries were created';
COMMENT ON COLUMN analytics.deliveries_by_day.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.deliveries_by_day.destination_id IS 'where they went to';
COMMENT ON COLUMN analytics.deliveries_by_day.destination_name IS 'the destination''s present name';
COMMENT ON COLUMN analytics.deliveries_by_day.event_type IS 'type of the published event, such as news.item.added';
COMMENT ON COLUMN analytics.deliveries_by_day.deliveries IS 'all; the sum of the columns that follow up to pending';
COMMENT ON COLUMN analytics.deliveries_by_day.succeeded IS 'the endpoint took it';
COMMENT ON COLUMN analytics.deliveries_by_day.failed IS 'every attempt of the retry schedule failed';
COMMENT ON COLUMN analytics.deliveries_by_day.superseded IS 'a newer event of the same subject took its place (debounce)';
COMMENT ON COLUMN analytics.deliveries_by_day.discarded IS 'nobody was subscribed any more';
COMMENT ON COLUMN analytics.deliveries_by_day.pending IS 'those that have no final status yet';
COMMENT ON COLUMN analytics.deliveries_by_day.waiting IS 'of the pending ones, those that were not tried yet';
COMMENT ON COLUMN analytics.deliveries_by_day.retrying IS 'those that failed and are tried again';
COMMENT ON COLUMN analytics.deliveries_by_day.delivering IS 'those that are being sent now';
COMMENT ON COLUMN analytics.deliveries_by_day.destination_external_id IS 'the destination''s present external id; null if it has none';
COMMENT ON COLUMN analytics.deliveries_by_day.notice IS 'whether the type is a notice, which tells of the destination itself';
COMMENT ON COLUMN analytics.deliveries_by_day.organization_name IS 'the organization''s present name';
COMMENT ON COLUMN analytics.deliveries_by_day.destination_deleted_at IS 'when the destination was deleted; null if it is there';
