CREATE VIEW analytics.sources AS
    SELECT s.id AS source_id, s.type AS source_type,
        coalesce(nullif(s.handle, ''), substring(s.url FROM '^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#]*@)?([^/?#:]+)')) AS source,
        s.created_at, CASE WHEN s.paused_at IS NULL THEN s.state ELSE 'paused' END AS state, s.outcome, s.failures, s.completed_at, s.interval_seconds, s.feeds,
        (SELECT count(*) FROM sources.attachments a WHERE a.source_id = s.id AND a.backfilling) AS backfills,
        w.on_show, w.gone, r.happenings AS retired, i.items, i.last_added_at, s.changed_sequence
    FROM sources.sources s
    LEFT JOIN (SELECT source_id, count(*) FILTER (WHERE NOT stale) AS on_show, count(*) FILTER (WHERE stale) AS gone
        FROM sources.shown GROUP BY source_id) w ON w.source_id = s.id
    LEFT JOIN sources.retired r ON r.source_id = s.id
    LEFT JOIN (SELECT source_id, count(*) AS items, max(added_at) AS last_added_at
        FROM items.items GROUP BY source_id) i ON i.source_id = s.id;
COMMENT ON VIEW analytics.sources IS 'Sources: how their collection goes, as far as it is recorded (a walk that finds nothing new is not), and what they yield.';
COMMENT ON COLUMN analytics.sources.source_id IS 'the source';
COMMENT ON COLUMN analytics.sources.source_type IS 'site, sitemap, siteIndexPage, instagram, facebook, tiktok or twitter';
COMMENT ON COLUMN analytics.sources.source IS 'the account''s handle, or the host of the page. Whole addresses are left out: some hold keys';
COMMENT ON COLUMN analytics.sources.created_at IS 'when it was registered';
COMMENT ON COLUMN analytics.sources.state IS 'registered, collecting, ok, failing, needs_credentials, needs_javascript or paused';
COMMENT ON COLUMN analytics.sources.outcome IS 'of the last recorded walk: ok, or the stable name of what went wrong, such as http_status; empty before the first';
COMMENT ON COLUMN analytics.sources.failures IS 'how many walks failed in a row';
COMMENT ON COLUMN analytics.sources.completed_at IS 'when the last recorded walk went through';
COMMENT ON COLUMN analytics.sources.interval_seconds IS 'seconds between two walks, as adapted to how often it changes';
COMMENT ON COLUMN analytics.sources.feeds IS 'how many feeds it fills';
COMMENT ON COLUMN analytics.sources.backfills IS 'for how many of them the first whole walk is still to come';
COMMENT ON COLUMN analytics.sources.on_show IS 'happenings that it shows; null where it never showed any';
COMMENT ON COLUMN analytics.sources.gone IS 'happenings that it has shown and shows no more';
COMMENT ON COLUMN analytics.sources.retired IS 'happenings that it has shown and that are retired, which are in neither of these; null where none is';
COMMENT ON COLUMN analytics.sources.items IS 'items of all feeds that are shown from it; null where there is none';
COMMENT ON COLUMN analytics.sources.last_added_at IS 'when the newest of them came into its feed';
COMMENT ON COLUMN analytics.sources.changed_sequence IS 'a number that only grows, higher with each change of the row: the place in the log of the event that changed it last. What it shows and its items don''t raise it';
