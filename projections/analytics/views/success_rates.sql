CREATE VIEW analytics.success_rates AS
    SELECT d.organization AS organization_id, t.destination AS destination_id, d.name AS destination_name, p.days AS last_days,
        sum(t.succeeded)::bigint AS succeeded, sum(t.failed)::bigint AS failed,
        round(sum(t.succeeded)::numeric / nullif(sum(t.succeeded + t.failed), 0), 4) AS success_rate
    FROM (VALUES (1), (7), (30), (90)) AS p (days)
    JOIN deliveries.all_tallies t ON t.day > (now() AT TIME ZONE 'UTC')::date - p.days
    LEFT JOIN destinations.destinations d ON d.id = t.destination
    GROUP BY t.destination, d.organization, d.name, p.days
    HAVING sum(t.succeeded + t.failed) > 0;
COMMENT ON VIEW analytics.success_rates IS 'Which part of the deliveries that came to an end succeeded, by destination, over the last 1, 7, 30 and 90 UTC days with today. Days without such a delivery count nothing; for rates by day or event type divide the columns of deliveries_by_day.';
COMMENT ON COLUMN analytics.success_rates.organization_id IS 'owner of the destination';
COMMENT ON COLUMN analytics.success_rates.destination_id IS 'where the deliveries went to';
COMMENT ON COLUMN analytics.success_rates.destination_name IS 'the destination''s present name';
COMMENT ON COLUMN analytics.success_rates.last_days IS '1, 7, 30 or 90: deliveries created on so many UTC days, today included';
COMMENT ON COLUMN analytics.success_rates.succeeded IS 'deliveries that the endpoint took';
COMMENT ON COLUMN analytics.success_rates.failed IS 'deliveries that failed for good';
COMMENT ON COLUMN analytics.success_rates.success_rate IS 'succeeded / (succeeded + failed), 0 to 1; superseded, discarded and pending ones don''t count';
