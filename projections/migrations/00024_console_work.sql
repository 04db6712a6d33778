-- +goose Up
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

-- +goose Down
DROP TABLE carillon.console_work;
