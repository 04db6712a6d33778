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
