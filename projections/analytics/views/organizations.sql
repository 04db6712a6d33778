CREATE VIEW analytics.organizations AS
    SELECT o.id AS organization_id, o.name AS organization_name, o.status, o.created_at, o.suspended_at,
        (SELECT count(*) FROM organizations.keys k
            WHERE k.organization = o.id AND k.revoked_at IS NULL AND k.expires_at > now()) AS api_keys,
        (SELECT count(*) FROM feeds.feeds f WHERE f.organization = o.id) AS feeds,
        (SELECT count(*) FROM destinations.destinations d WHERE d.organization = o.id) AS destinations,
        (SELECT count(*) FROM destinations.destinations d WHERE d.organization = o.id AND d.status = 'enabled') AS enabled_destinations,
        t.deliveries, t.pending, coalesce(p.waiting, 0) AS waiting, coalesce(p.retrying, 0) AS retrying,
        coalesce(p.delivering, 0) AS delivering, t.failed
    FROM organizations.organizations o CROSS JOIN LATERAL (
        SELECT coalesce(sum(total), 0)::bigint AS deliveries, coalesce(sum(failed), 0)::bigint AS failed,
            coalesce(sum(total - succeeded - failed - superseded - discarded), 0)::bigint AS pending
        FROM deliveries.outcomes u WHERE u.organization = o.id) t
    LEFT JOIN PENDING(organization) p ON p.organization = o.id;
COMMENT ON VIEW analytics.organizations IS 'Organizations with the number of things that each has now.';
COMMENT ON COLUMN analytics.organizations.organization_id IS 'the organization';
COMMENT ON COLUMN analytics.organizations.organization_name IS 'its current name';
COMMENT ON COLUMN analytics.organizations.status IS 'registered or suspended';
COMMENT ON COLUMN analytics.organizations.created_at IS 'when it was registered';
COMMENT ON COLUMN analytics.organizations.suspended_at IS 'when it was last suspended; null if never';
COMMENT ON COLUMN analytics.organizations.api_keys IS 'API keys that are valid now';
COMMENT ON COLUMN analytics.organizations.feeds IS 'feeds that it owns, of all types';
COMMENT ON COLUMN analytics.organizations.destinations IS 'destinations, disabled ones included';
COMMENT ON COLUMN analytics.organizations.enabled_destinations IS 'destinations that are enabled';
COMMENT ON COLUMN analytics.organizations.deliveries IS 'deliveries to its destinations';
COMMENT ON COLUMN analytics.organizations.pending IS 'deliveries that have no final status yet';
COMMENT ON COLUMN analytics.organizations.waiting IS 'of the pending ones, those that were not tried yet';
COMMENT ON COLUMN analytics.organizations.retrying IS 'those that failed and are tried again';
COMMENT ON COLUMN analytics.organizations.delivering IS 'those that are being sent now';
COMMENT ON COLUMN analytics.organizations.failed IS 'deliveries that failed permanently';
