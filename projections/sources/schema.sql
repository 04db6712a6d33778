CREATE TABLE sources (
    id                uuid PRIMARY KEY,
    type              text NOT NULL,
    url               text NOT NULL,
    handle            text NOT NULL,
    timezone          text NOT NULL,
    settings          jsonb NOT NULL DEFAULT '{}', -- how its pages are read, see source.Settings
    host              text NOT NULL,    -- whose pace a walk has to keep: of the URL, or the platform
    created_at        timestamptz NOT NULL,
    feeds             integer NOT NULL, -- attached to how many
    revision          bigint NOT NULL,  -- of its stream
    state             text NOT NULL,    -- registered, collecting, ok, failing, needs_credentials, needs_javascript
    ended             text NOT NULL,    -- the state in which the last recorded walk ended
    since             timestamptz NOT NULL, -- it has ended so each time
    outcome           text NOT NULL,    -- of the last recorded walk, see source.State
    message           text NOT NULL,    -- what is wrong, for operators
    notes             jsonb NOT NULL,   -- why less was found than the source shows
    collections       integer NOT NULL, -- the number of the last recorded walk
    started_at        timestamptz,      -- the last one that was asked for
    completed_at      timestamptz,      -- the last recorded one that completed
    observed          integer NOT NULL, -- happenings on show then
    pages             integer NOT NULL, -- that it asked for
    new               integer NOT NULL, -- happenings that it found to be new, revised and gone
    revised           integer NOT NULL,
    stale             integer NOT NULL,
    failures          integer NOT NULL, -- in a row, as far as they are recorded
    interval_seconds  integer NOT NULL,
    wanted_at         timestamptz,      -- somebody asked for a walk, or attached the source to a feed; none began since
    requested         boolean NOT NULL, -- by an operator, and not done yet
    due_at            timestamptz NOT NULL, -- of the next walk, where its memory is lost
    paused_at         timestamptz,      -- nobody may visit it since then
    paused_by         text NOT NULL,    -- who said so last, and why
    paused_for        text NOT NULL,
    resumed_at        timestamptz,      -- the last pause ended, or it was revised; a visit is due since then
    changed_sequence bigint NOT NULL DEFAULT 0 -- of the event that changed the row last
);

CREATE INDEX sources_wanted ON sources (wanted_at) WHERE wanted_at IS NOT NULL;
CREATE INDEX sources_resumed ON sources (resumed_at) WHERE resumed_at IS NOT NULL;
CREATE INDEX sources_by_age ON sources (created_at, id);
CREATE INDEX sources_by_url ON sources USING hash (url);

-- What comes of a source in a feed is backfill until a walk that began after the attachment has completed, unless all of
-- it was known then.
CREATE TABLE attachments (
    feed_id     uuid NOT NULL,
    source_id   uuid NOT NULL,
    attached_at timestamptz NOT NULL,
    backfilling boolean NOT NULL,
    walking     boolean NOT NULL,     -- a walk that began since then is under way
    ended_at    timestamptz,          -- when the backfill did; null while it runs
    added       integer NOT NULL,     -- items that came by it
    PRIMARY KEY (feed_id, source_id)
);

CREATE INDEX attachments_of_source ON attachments (source_id);

-- What each source shows, so that a walk whose memory was lost tells what is gone.
CREATE TABLE shown (
    source_id    uuid NOT NULL,
    happening_id uuid NOT NULL,
    digest       bytea NOT NULL, -- see happening.Digest
    stale        boolean NOT NULL,
    PRIMARY KEY (source_id, happening_id)
);

-- How many happenings that each source has shown are retired.
CREATE TABLE retired (
    source_id  uuid PRIMARY KEY,
    happenings bigint NOT NULL
);
