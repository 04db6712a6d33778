-- +goose Up
-- Webhooks on their way to programs that listen for them, and the answers on their way back. Requests and answers are
-- sealed by the secret part of the destination's URL. All of it may be lost: the attempt fails and is made again.
CREATE UNLOGGED TABLE carillon.listeners (
    channel bytea PRIMARY KEY,
    seen_at timestamptz NOT NULL
);
CREATE UNLOGGED TABLE carillon.listen_requests (
    id       uuid PRIMARY KEY,
    channel  bytea NOT NULL,
    request  bytea NOT NULL,
    made_at  timestamptz NOT NULL DEFAULT clock_timestamp(),
    taken_at timestamptz,
    answer   bytea
);
CREATE INDEX listen_requests_channel ON carillon.listen_requests (channel, made_at);

-- +goose Down
DROP TABLE carillon.listeners, carillon.listen_requests;
