-- +goose Up
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
    observed         integer NOT NULL DEFAULT 0   -- happenings on show
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
    source_id    uuid NOT NULL REFERENCES carillon.source_walks ON DELETE CASCADE,
    happening_id uuid NOT NULL,
    key          text NOT NULL,    -- the evidence that the id is derived from; empty where it was lost
    evidence     uuid[] NOT NULL,  -- all ids that its keys would give
    digest       bytea,            -- of what was recorded last
    waiting      boolean NOT NULL, -- what is told of it has changed, and was not compared yet
    restored_at  timestamptz,      -- since then it is known from the events alone: pages may tell more of it
    PRIMARY KEY (source_id, happening_id)
);
CREATE INDEX source_views_evidence ON carillon.source_views USING gin (evidence);
CREATE INDEX source_views_waiting ON carillon.source_views (source_id) WHERE waiting OR restored_at IS NOT NULL;

-- What a page tells of a happening.
CREATE TABLE carillon.source_tellings (
    source_id    uuid NOT NULL REFERENCES carillon.source_walks ON DELETE CASCADE,
    happening_id uuid NOT NULL,
    page         uuid NOT NULL,
    observation  bytea NOT NULL, -- JSON
    dates        bytea NOT NULL, -- a digest of its dates and statuses
    since        timestamptz NOT NULL DEFAULT clock_timestamp(),
    dated_at     timestamptz NOT NULL DEFAULT clock_timestamp(), -- since when the dates are told as they are
    PRIMARY KEY (source_id, happening_id, page)
);
CREATE INDEX source_tellings_of_page ON carillon.source_tellings (source_id, page);

-- Lets one who has lost the turn at a source change nothing, and is a sign of life. A Postgres that crashes may forget what
-- it remembered last, as it may forget everything here.
-- +goose StatementBegin
CREATE FUNCTION carillon.hold_walk(of uuid, by uuid, length interval) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM set_config('synchronous_commit', 'off', true);
    UPDATE carillon.source_walks SET held_until = greatest(held_until, clock_timestamp() + length) WHERE source_id = of AND holder = by;
    IF NOT FOUND THEN
        RAISE EXCEPTION 'the turn is lost' USING ERRCODE = 'CAR01';
    END IF;
END $$;
-- +goose StatementEnd

-- +goose Down
DROP FUNCTION carillon.hold_walk;
DROP TABLE carillon.source_tellings, carillon.source_views, carillon.source_pages, carillon.source_walks;
