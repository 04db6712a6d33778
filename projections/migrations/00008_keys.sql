-- +goose Up
-- What holds for all data keys. The ids are derived from keys and tell nothing of them.
CREATE TABLE carillon.key_state (
    one         boolean PRIMARY KEY DEFAULT true CHECK (one),
    master      bytea NOT NULL, -- the master key that this installation's data keys are wrapped by
    wrapping    bytea NOT NULL, -- the key that new data keys are wrapped by: master key and epoch key together
    renewed_at  timestamptz NOT NULL DEFAULT now(), -- when the epoch key was made
    shredded_at timestamptz     -- the first shredding since then: pages and logs may keep that key; null where there is none
);

-- +goose Down
DROP TABLE carillon.key_state;
