-- +goose Up
-- The first schema of what is not derived from events. It has the number of the last step that led to it before there was a
-- release, so that databases which have that step keep what they have.
-- How far each projection and process manager has come. The schema fingerprint tells a read model that was built by
-- older code; the epoch changes when another build of it takes its place, which fences the runner of the old one.
CREATE TABLE carillon.checkpoints (
    name        text PRIMARY KEY,
    fingerprint text   NOT NULL,
    epoch       bigint NOT NULL DEFAULT 1,
    commit      bigint NOT NULL DEFAULT 0,
    prepare     bigint NOT NULL DEFAULT 0,
    events      bigint NOT NULL DEFAULT 0,
    updated_at  timestamptz NOT NULL DEFAULT now(),
    stopped     text, -- why it stopped permanently, until it is started again

    -- A position belongs to one event store. A copy of it is recognized by the last event that the consumer has taken in.
    store         text NOT NULL DEFAULT '', -- '' until it is known
    last_stream   text,
    last_revision bigint,
    last_event    uuid,

    -- A read model whose rows are of another event store, or of a part of this one's history that is gone, is served until
    -- it is rebuilt beside them. An empty one is built in its place.
    outdated   text,   -- why the rows don't follow from the present event store; null if they do
    incomplete boolean NOT NULL DEFAULT false, -- begun from nothing, and not at the head of that time yet
    built      bigint, -- progress of the rebuild as a commit position; null if none runs
    build_to   bigint  -- the head when it began
);

-- Wrapped data keys, one for each destination. They live outside the event log on purpose: deleting a row makes the
-- secrets and response bodies in the log and in its backups unreadable.
CREATE TABLE carillon.data_keys (
    id         uuid PRIMARY KEY,
    wrapped    bytea NOT NULL,
    created_at timestamptz NOT NULL DEFAULT now()
);

-- Requests counted for each organization and minute, shared by all nodes.
CREATE TABLE carillon.rate_limits (
    organization uuid   NOT NULL,
    bucket       text   NOT NULL,
    window_start timestamptz NOT NULL,
    count        integer NOT NULL,
    PRIMARY KEY (organization, bucket)
);

-- Moves a checkpoint, or fails where it is not where its runner left it: another build or runner has taken over. As the
-- first statement of a transaction it keeps whoever was fenced from writing anything, without an answer that has to be
-- waited for.
-- +goose StatementBegin
CREATE FUNCTION carillon.move_checkpoint(
    runner text, in_epoch bigint, from_commit bigint, from_prepare bigint, to_commit bigint, to_prepare bigint,
    more_events bigint, stream text, revision bigint, event uuid
) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE carillon.checkpoints c
    SET commit = to_commit, prepare = to_prepare, events = c.events + more_events, updated_at = now(),
        last_stream = nullif(stream, ''), last_revision = revision, last_event = event
    WHERE c.name = runner AND c.epoch = in_epoch AND c.commit = from_commit AND c.prepare = from_prepare;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'fenced' USING ERRCODE = 'CF001';
    END IF;
END $$;
-- +goose StatementEnd

-- What holds for a host whoever asks it, shared by all processes that collect: when its next turn is, until when it wants
-- to be left alone, and its robots.txt. All of it may be lost at any time, which costs a few requests.
CREATE TABLE carillon.hosts (
    name       text PRIMARY KEY, -- lower case, with the port where it is not that of the scheme
    next_at    timestamptz NOT NULL,
    rest_until timestamptz NOT NULL DEFAULT '-infinity'
);

CREATE TABLE carillon.robots (
    origin        text PRIMARY KEY, -- scheme and host
    body          bytea NOT NULL,   -- empty where there is no such file
    url           text NOT NULL,    -- that answered, for which the validators hold
    etag          text NOT NULL,
    last_modified text NOT NULL,
    answered_at   timestamptz NOT NULL
);

CREATE INDEX robots_by_age ON carillon.robots (answered_at);

-- What walks through sources remember, shared by all processes that collect. All of it may be lost at any time, which
-- costs requests: it says what to ask for, and which of what is found was told before.

-- A source's walk, and when to go on with it.
CREATE TABLE carillon.source_walks (
    source_id        uuid PRIMARY KEY,
    host             text NOT NULL,        -- whose pace it has to keep
    next_at          timestamptz NOT NULL, -- of the next visit
    holder           uuid,                 -- the visit that is under way
    held_until       timestamptz NOT NULL DEFAULT '-infinity',
    served_at        timestamptz,          -- sources.wanted_at that the last walk was begun for
    number           integer NOT NULL,     -- of the walk under way, or the last
    walking          boolean NOT NULL DEFAULT false,
    wanted           boolean NOT NULL DEFAULT false, -- somebody asked for this walk
    began_at         timestamptz,
    attempted_at     timestamptz,          -- the last visit
    completed_at     timestamptz,          -- the last walk that went through
    interval_seconds integer NOT NULL,
    failures         integer NOT NULL,     -- in a row
    stumbles         integer NOT NULL DEFAULT 0, -- pages in a row that could not be read
    remark           text NOT NULL DEFAULT '',   -- why the walk stands still, if it does
    asked            integer NOT NULL DEFAULT 0, -- pages, of this walk
    linked           integer NOT NULL DEFAULT 0, -- pages that this walk is to ask for, those asked for included
    tally            jsonb NOT NULL DEFAULT '{}', -- what this walk has come to so far
    observed         integer NOT NULL DEFAULT 0,  -- happenings on show
    resumed_at       timestamptz, -- sources.resumed_at that the walk was made due for
    last_tally       jsonb,       -- what the last complete walk has come to
    fresh            uuid         -- the page whose happenings, new to the source, are yet to be compared
);
CREATE INDEX source_walks_due ON carillon.source_walks (next_at);

CREATE TABLE carillon.source_pages (
    source_id     uuid NOT NULL REFERENCES carillon.source_walks ON DELETE CASCADE,
    page          uuid NOT NULL,    -- a digest of the address
    address       text NOT NULL,
    role          text NOT NULL,
    list          boolean NOT NULL,
    lasting       boolean NOT NULL, -- it stays with the source until it is gone itself
    root          boolean NOT NULL,
    modified      text NOT NULL,    -- as the page says that links it
    listed_by     uuid,
    evidence      uuid NOT NULL,    -- the happening that its address would identify
    walk          integer NOT NULL, -- the last one that came across it
    ahead         boolean NOT NULL,
    rank          smallint NOT NULL,
    place         bigint NOT NULL GENERATED ALWAYS AS IDENTITY, -- in the order in which the walk came across them
    outcome       text NOT NULL DEFAULT '', -- of the last reading: read, partial, unchanged, gone, failed
    asked_at      timestamptz,
    read_at       timestamptz,
    read_modified text NOT NULL DEFAULT '',
    notes         jsonb NOT NULL DEFAULT '[]',
    state         jsonb,
    shown         integer NOT NULL DEFAULT 0,
    until         timestamptz,
    barren        integer NOT NULL DEFAULT 0,
    PRIMARY KEY (source_id, page)
);
CREATE INDEX source_pages_ahead ON carillon.source_pages (source_id, rank, place) WHERE ahead;
CREATE INDEX source_pages_evidence ON carillon.source_pages (source_id, evidence) WHERE ahead;
CREATE INDEX source_pages_listed ON carillon.source_pages (source_id, listed_by);

-- A happening as a source shows it: what all of its pages tell of it together.
CREATE TABLE carillon.source_views (
    source_id    uuid NOT NULL,
    happening_id uuid NOT NULL,
    key          text NOT NULL,    -- the evidence that the id is derived from; empty where it was lost
    evidence     uuid[] NOT NULL,  -- all ids that its keys would give
    digest       bytea,            -- of what was recorded last
    waiting      boolean NOT NULL, -- what is told of it has changed, and was not compared yet
    restored_at  timestamptz,      -- since then it is known from the events alone: pages may tell more of it
    PRIMARY KEY (source_id, happening_id)
);
-- A search would go through all that waits to be sorted in.
CREATE INDEX source_views_evidence ON carillon.source_views USING gin (evidence) WITH (fastupdate = off);
CREATE INDEX source_views_waiting ON carillon.source_views (source_id) WHERE waiting OR restored_at IS NOT NULL;

-- What a page tells of a happening.
CREATE TABLE carillon.source_tellings (
    source_id    uuid NOT NULL,
    happening_id uuid NOT NULL,
    page         uuid NOT NULL,
    observation  bytea NOT NULL, -- JSON
    dates        bytea NOT NULL, -- a digest of its dates and statuses
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    dated_at     timestamptz NOT NULL DEFAULT clock_timestamp(), -- since when the dates are told as they are
    PRIMARY KEY (source_id, happening_id, page)
);
CREATE INDEX source_tellings_of_page ON carillon.source_tellings (source_id, page);

-- Fails if the visit has lost its turn, extends the turn, and keeps how far the walk is: one row, changed once a page. A
-- Postgres that crashes may forget the last of it. What is written with it is planned once, by index: planning it for each
-- page took longer than doing it.
-- +goose StatementBegin
CREATE FUNCTION carillon.hold_walk(of uuid, by uuid, length interval, page uuid, more_asked integer, more_linked integer, sum jsonb) RETURNS void
LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true), set_config('plan_cache_mode', 'force_generic_plan', true),
        set_config('enable_seqscan', 'off', true), set_config('enable_hashjoin', 'off', true), set_config('enable_mergejoin', 'off', true);
    UPDATE carillon.source_walks SET held_until = greatest(held_until, clock_timestamp() + length), fresh = page,
        asked = asked + more_asked, linked = linked + more_linked, tally = coalesce(sum, tally)
    WHERE source_id = of AND holder = by;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the turn is lost' USING ERRCODE = 'CAR01';
    END IF;
END $$;
-- +goose StatementEnd

-- Tellings and views are written in transactions that hold the row of their walk, so they have no foreign key.
-- +goose StatementBegin
CREATE FUNCTION carillon.forget_tellings() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM carillon.source_tellings t USING gone WHERE t.source_id = gone.source_id;
    DELETE FROM carillon.source_views v USING gone WHERE v.source_id = gone.source_id;
    RETURN NULL;
END $$;
-- +goose StatementEnd
CREATE TRIGGER forget_tellings AFTER DELETE ON carillon.source_walks
    REFERENCING OLD TABLE AS gone FOR EACH STATEMENT EXECUTE FUNCTION carillon.forget_tellings();

-- What holds for all data keys. The ids are derived from keys and tell nothing of them.
CREATE TABLE carillon.key_state (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    master      bytea NOT NULL, -- the master key that this installation's data keys are wrapped by
    wrapping    bytea NOT NULL, -- the key that new data keys are wrapped by: master key and epoch key together
    renewed_at  timestamptz NOT NULL DEFAULT now(), -- when the epoch key was made
    shredded_at timestamptz     -- the first shredding since then: pages and logs may keep that key; null where there is none
);

-- Who is signed in at the console, and the links that sign people in, by hashes of what browsers and links hold. All
-- nodes honour them. Both may be lost: people sign in again.
CREATE TABLE carillon.console_sessions (
    hash         bytea PRIMARY KEY,
    organization uuid NOT NULL,
    key          text NOT NULL,       -- the id of the API key that it began with; empty: a link
    expires_at   timestamptz NOT NULL,
    role         text NOT NULL DEFAULT 'organization', -- or operator, auditor: then organization is zero, and key a token's id
    name         text NOT NULL DEFAULT ''              -- of an operator or auditor
);
CREATE INDEX console_sessions_ended ON carillon.console_sessions (expires_at);

CREATE TABLE carillon.console_links (
    hash         bytea PRIMARY KEY,
    organization uuid NOT NULL,
    expires_at   timestamptz NOT NULL
);
CREATE INDEX console_links_ended ON carillon.console_links (expires_at);

-- Work on many deliveries that somebody asked for at the console: how far it has come, so that it can go on where the
-- process that did it was killed. It may be lost: what was sent again, was.
CREATE TABLE carillon.console_work (
    id           uuid PRIMARY KEY,
    organization uuid NOT NULL,
    destination  uuid NOT NULL,
    kind         text NOT NULL,        -- replay, backfill
    status       text NOT NULL,        -- the filter, as it was typed
    type         text NOT NULL,
    since        timestamptz NOT NULL, -- both ends included
    until        timestamptz NOT NULL,
    actor        text NOT NULL,        -- who asked for it
    total        integer NOT NULL,
    done         integer NOT NULL,
    refused      integer NOT NULL,     -- of those that are done: what could not be sent again
    after_at     timestamptz NOT NULL, -- the last delivery that is done
    after_id     uuid NOT NULL,
    state        text NOT NULL,        -- running, done, stopped
    message      text NOT NULL,        -- why it was stopped
    beat_at      timestamptz NOT NULL  -- when whoever does it was last heard of
);
CREATE INDEX console_work_old ON carillon.console_work (beat_at);

-- Things that were counted against a limit of their organization and that the read model may not show yet. A row counts
-- until the read model has come to its position, or for ten minutes where nobody said what became of the thing.
CREATE TABLE carillon.quota_claims (
    id           uuid PRIMARY KEY, -- of the thing
    organization uuid NOT NULL,
    kind         text NOT NULL,    -- the limit
    amount       integer NOT NULL, -- how many things it stands for
    claimed_at   timestamptz NOT NULL DEFAULT now(),
    position     bigint            -- commit position of what made it; NULL: not made yet
);

CREATE INDEX quota_claims_of_organization ON carillon.quota_claims (organization, kind);

-- Requests that an organization may still make at once: a token bucket, from which every process takes some ahead.
CREATE TABLE carillon.request_tokens (
    organization uuid PRIMARY KEY,
    left_over    double precision NOT NULL,
    granted      double precision NOT NULL, -- the last time
    at           timestamptz NOT NULL
);

-- When keys and tokens were used last, to the hour, by prefix and public part (ck_…, ca_…, co_…). It may be lost: they count
-- as not used until they are used again.
CREATE TABLE carillon.credential_uses (
    credential text PRIMARY KEY,
    used_at    timestamptz NOT NULL
);

-- For how long destinations are left alone, because their receivers asked for that: what each process that sends must know at
-- once, and may lose at any time, which costs a few requests that are refused.
CREATE TABLE carillon.resting (
    destination uuid PRIMARY KEY,
    until       timestamptz NOT NULL,
    asked_at    timestamptz NOT NULL
);
