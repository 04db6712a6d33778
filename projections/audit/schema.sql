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
