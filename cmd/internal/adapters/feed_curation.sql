CREATE TABLE happenings (
    id     uuid PRIMARY KEY,
    feeds  uuid[] NOT NULL, -- of which it is an item
    merged boolean NOT NULL -- into another one, which is shown in its place
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

-- What happenings are found by that may be one: a hash of a strong key, or of a date and a place or title.
CREATE TABLE marks (
    happening_id uuid NOT NULL,
    mark         bigint NOT NULL,
    starts_at    timestamptz,       -- null for a key, and where the day is all that is known
    day          date NOT NULL,     -- on which it takes place; infinity for a key. Once a day all are gone through for those long over
    kind         smallint NOT NULL  -- 0 a key, 1 a place, 2 a title
);

CREATE INDEX marks_of ON marks (happening_id);
CREATE INDEX marks_like ON marks (mark);

-- What comparing two happenings came to, the last time.
CREATE TABLE comparisons (
    a           uuid NOT NULL, -- the lower id
    b           uuid NOT NULL,
    same        boolean NOT NULL,
    reason      text NOT NULL,
    score       real NOT NULL, -- how alike their titles are, from 0 to 1
    compared_at timestamptz NOT NULL,
    PRIMARY KEY (a, b)
);

CREATE INDEX comparisons_of_b ON comparisons (b);
