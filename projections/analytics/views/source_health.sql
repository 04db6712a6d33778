CREATE VIEW analytics.source_health AS
    SELECT s.id AS source_id, s.type AS source_type,
        coalesce(nullif(s.handle, ''), substring(s.url FROM '^[A-Za-z][A-Za-z0-9+.-]*://(?:[^/?#]*@)?([^/?#:]+)')) AS source,
        CASE WHEN s.paused_at IS NULL THEN s.state ELSE 'paused' END AS state, s.since, s.outcome, s.failures,
        s.paused_at IS NULL AND s.state IN ('failing', 'needs_credentials', 'needs_javascript') AS needs_attention,
        s.completed_at, s.interval_seconds,
        s.paused_at IS NULL AND coalesce(s.completed_at, s.created_at) + 3 * s.interval_seconds * interval '1 second' < now() AS overdue,
        s.pages, s.new, s.revised, s.stale, s.feeds
    FROM sources.sources s;
COMMENT ON VIEW analytics.source_health IS 'Sources: whether collecting from each works, since when, and what its last recorded walk found.';
COMMENT ON COLUMN analytics.source_health.source_id IS 'the source';
COMMENT ON COLUMN analytics.source_health.source_type IS 'site, sitemap, siteIndexPage, instagram, facebook, tiktok or twitter';
COMMENT ON COLUMN analytics.source_health.source IS 'handle of the account, or host of the page; whole addresses are left out, because some hold keys';
COMMENT ON COLUMN analytics.source_health.state IS 'registered, collecting, ok, failing, needs_credentials, needs_javascript or paused';
COMMENT ON COLUMN analytics.source_health.since IS 'since when every recorded walk has ended in this state';
COMMENT ON COLUMN analytics.source_health.outcome IS 'of the last recorded walk: ok, or the stable name of the failure; empty before the first';
COMMENT ON COLUMN analytics.source_health.failures IS 'failed walks in a row';
COMMENT ON COLUMN analytics.source_health.needs_attention IS 'whether an operator has to act: the source fails, or needs credentials or JavaScript';
COMMENT ON COLUMN analytics.source_health.completed_at IS 'when the last recorded walk completed; null before the first';
COMMENT ON COLUMN analytics.source_health.interval_seconds IS 'seconds between two walks, adapted to how often the source changes';
COMMENT ON COLUMN analytics.source_health.overdue IS 'whether no recorded walk completed for three intervals; one that finds nothing new is recorded once a day only';
COMMENT ON COLUMN analytics.source_health.pages IS 'pages that the last recorded walk requested';
COMMENT ON COLUMN analytics.source_health.new IS 'happenings that it found first';
COMMENT ON COLUMN analytics.source_health.revised IS 'happenings that had changed';
COMMENT ON COLUMN analytics.source_health.stale IS 'happenings that it did not find any more';
COMMENT ON COLUMN analytics.source_health.feeds IS 'feeds that the source fills';
