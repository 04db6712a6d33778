-- Every change of every destination, kept after the destination is deleted. No secret material.
CREATE TABLE entries (
    destination      uuid NOT NULL,
    revision         bigint NOT NULL,      -- in the destination's stream
    organization     uuid,
    type             text NOT NULL,        -- the stored event's name
    at               timestamptz NOT NULL, -- when the change took effect
    recorded_at      timestamptz NOT NULL, -- when the store recorded it
    event_id         uuid NOT NULL,
    commit_position  bigint NOT NULL,      -- in the global order
    prepare_position bigint NOT NULL,
    actor            text NOT NULL,
    reason           text,
    correlation      uuid,
    causation        uuid,
    detail           jsonb NOT NULL,       -- what changed: see Detail
    PRIMARY KEY (destination, revision)
);
CREATE INDEX ON entries (organization, at);

-- To whom something of a destination was shown in full. Kept as long.
CREATE TABLE disclosures (
    destination      uuid NOT NULL,
    revision         bigint NOT NULL,      -- in the stream of the day
    organization     uuid,
    type             text NOT NULL,
    at               timestamptz NOT NULL,
    recorded_at      timestamptz NOT NULL,
    event_id         uuid NOT NULL,
    commit_position  bigint NOT NULL,
    prepare_position bigint NOT NULL,
    actor            text NOT NULL,        -- to whom
    reason           text,
    correlation      uuid,
    causation        uuid,
    detail           jsonb NOT NULL,
    PRIMARY KEY (destination, commit_position, prepare_position)
);

-- Everything that people change, by the things that it is about: a row for each of them, and for its actor. Kept as
-- long.
CREATE TABLE record (
    kind             text NOT NULL,        -- organization, key, destination, feed, source, operator, auditor, person, secret
    thing            text NOT NULL,        -- its id, or the name of an operator or person
    main             boolean NOT NULL,     -- of the thing that is changed: one row of each event
    stream           text NOT NULL,
    revision         bigint NOT NULL,      -- in that stream
    organization     uuid,                 -- NULL for what belongs to none, such as a source
    type             text NOT NULL,
    at               timestamptz NOT NULL,
    recorded_at      timestamptz NOT NULL,
    event_id         uuid NOT NULL,
    commit_position  bigint NOT NULL,
    prepare_position bigint NOT NULL,
    actor            text NOT NULL,
    reason           text,
    correlation      uuid,
    causation        uuid,
    detail           jsonb NOT NULL,       -- the event without its secrets
    PRIMARY KEY (kind, thing, commit_position, prepare_position, revision, stream)
);
CREATE INDEX ON record (organization, commit_position, prepare_position) WHERE main;
CREATE INDEX ON record (commit_position, prepare_position) WHERE main;
CREATE INDEX ON record (actor, commit_position, prepare_position) WHERE main;
CREATE INDEX ON record (stream, revision) WHERE main;
