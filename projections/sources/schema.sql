CREATE TABLE sources (
    id                uuid PRIMARY KEY,
    type              text NOT NULL,
    url               text NOT NULL,
    handle            text NOT NULL,
    timezone          text NOT NULL,
    created_at        timestamptz NOT NULL,
    feeds             integer NOT NULL, -- attached to how many
    state             text NOT NULL,    -- registered, collecting, ok, failing, needs_credentials, needs_javascript
    message           text NOT NULL,    -- what is wrong, for operators
    notes             jsonb NOT NULL,   -- why less was found than the source shows
    collections       integer NOT NULL, -- started so far
    started_at        timestamptz,      -- the last one
    completed_at      timestamptz,      -- the last one that completed
    observed          integer NOT NULL, -- happenings on show then
    failures          integer NOT NULL, -- in a row
    cursor            bytea,            -- where the next one goes on
    wanted_at         timestamptz,      -- when somebody last asked for one, or attached the source to a feed
    requested         boolean NOT NULL, -- by an operator, and not done yet
    due_at            timestamptz NOT NULL DEFAULT 'infinity'
);

CREATE INDEX sources_due ON sources (due_at) WHERE feeds > 0 OR requested;
CREATE INDEX sources_by_age ON sources (created_at, id);

CREATE TABLE attachments (
    feed_id   uuid NOT NULL,
    source_id uuid NOT NULL,
    PRIMARY KEY (feed_id, source_id)
);

-- What each source shows, so that a collection tells what is new, changed or gone without reading every stream.
CREATE TABLE shown (
    source_id    uuid NOT NULL,
    happening_id uuid NOT NULL,
    digest       bytea NOT NULL, -- see happening.Digest
    stale        boolean NOT NULL,
    PRIMARY KEY (source_id, happening_id)
);
