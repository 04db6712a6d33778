CREATE TABLE happenings (
    id    uuid PRIMARY KEY,
    feeds uuid[] NOT NULL -- of which it is an item
);

-- What each source says of the happenings that it carries.
CREATE TABLE carried (
    happening_id uuid NOT NULL,
    source_id    uuid NOT NULL,
    first_seen   timestamptz NOT NULL,
    published    timestamptz,          -- null where the source doesn't say
    last         timestamptz,          -- end of the last occurrence; null without any
    newest       timestamptz NOT NULL, -- the latest of these
    PRIMARY KEY (happening_id, source_id)
);

CREATE INDEX carried_by_source ON carried (source_id, newest, happening_id);
