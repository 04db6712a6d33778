-- +goose Up
-- Versions since which no older one can run on what is stored, and why: the migration of such a version adds its row.
CREATE TABLE carillon.required_versions (
    version text PRIMARY KEY, -- as in 1.2.0
    why     text NOT NULL
);

-- +goose Down
DROP TABLE carillon.required_versions;
