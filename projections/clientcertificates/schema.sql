-- Client certificates of organizations, without their private keys. Those that ended stay, so that it can be told which
-- one receivers were shown when, and which data keys are to be shredded.
CREATE TABLE certificates (
    id           uuid PRIMARY KEY,     -- owns the data key of the private key
    organization uuid NOT NULL,
    chain        text NOT NULL,        -- PEM, the organization's first
    subject      text NOT NULL,
    issuer       text NOT NULL,
    serial       text NOT NULL,        -- hexadecimal
    fingerprint  text NOT NULL,        -- SHA-256, hexadecimal
    not_before   timestamptz NOT NULL,
    not_after    timestamptz NOT NULL,
    set_at       timestamptz NOT NULL,
    set_by       text NOT NULL,        -- an actor, such as operator:ann
    ended_at     timestamptz           -- null: it is shown
);

CREATE UNIQUE INDEX certificates_shown ON certificates (organization) WHERE ended_at IS NULL;
CREATE INDEX certificates_expiring ON certificates (not_after, organization) WHERE ended_at IS NULL;
