CREATE TABLE feeds (
    id             uuid PRIMARY KEY,
    feed_type      text NOT NULL, -- event, news
    organization   uuid NOT NULL, -- the owner
    name           text NOT NULL,
    description    text NOT NULL,
    enabled        boolean NOT NULL,
    enabled_source text NOT NULL, -- system, admin, api: who switched it last
    enabled_reason text,
    config_version double precision NOT NULL,
    created_at     timestamptz NOT NULL,
    updated_at     timestamptz NOT NULL,
    changed_sequence bigint NOT NULL DEFAULT 0 -- of the event that changed the row last
);

CREATE INDEX feeds_of_owner ON feeds (organization, feed_type, created_at, id);

-- Organizations that may read a feed beside its owner.
CREATE TABLE shares (
    feed_id      uuid NOT NULL,
    organization uuid NOT NULL,
    created_at   timestamptz NOT NULL,
    PRIMARY KEY (feed_id, organization)
);

CREATE INDEX shares_with_reader ON shares (organization, feed_id);

CREATE TABLE associations (
    id          uuid PRIMARY KEY,
    feed_id     uuid NOT NULL,
    source_type text NOT NULL,
    source_id   uuid NOT NULL,
    created_at  timestamptz NOT NULL
);

CREATE INDEX associations_of_feed ON associations (feed_id, created_at, id);
