// Package organizations is the read model of organizations and their API keys.
package organizations

import (
	_ "embed"

	"github.com/jackc/pgx/v5"

	"carillon/aggregates/organization"
	"carillon/eventstore"
	"carillon/projections"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of organizations and their API keys.
var ReadModel = projections.ReadModel{
	Name:    "organizations",
	Version: 4,
	Schema:  schema,
	Filter:  eventstore.Categories(organization.Aggregate.Category),
	Project: projections.Statements(organization.Events.Decode, queue),
}

// Of two keys with one id, which chance makes next to impossible, the older stays good.
const insertKey = `INSERT INTO keys (id, organization, name, hash, scopes, created_at, expires_at, successor_of)
	VALUES ($1, $2, $3, $4, $5, $6, coalesce($7, 'infinity'::timestamptz), $8) ON CONFLICT (id) DO NOTHING`

// queue adds an event's statements.
func queue(batch *pgx.Batch, recorded *eventstore.Recorded, event organization.Event) error {
	id := recorded.StreamID()
	switch e := event.(type) {
	case organization.Registered:
		batch.Queue("INSERT INTO organizations (id, name, created_at) VALUES ($1, $2, $3)", id, e.Name, e.At)
	case organization.KeyIssued:
		batch.Queue(insertKey, e.KeyID, id, e.Name, e.Hash, e.Scopes, e.At, e.ExpiresAt, "")
	case organization.KeyRotated:
		batch.Queue("UPDATE keys SET expires_at = least(expires_at, $3) WHERE id = $1 AND organization = $2", e.Of,
			id, e.EndsAt)
		batch.Queue(insertKey, e.KeyID, id, e.Name, e.Hash, e.Scopes, e.At, e.ExpiresAt, e.Of)
	case organization.KeyRevoked:
		batch.Queue("UPDATE keys SET revoked_at = $3 WHERE id = $1 AND organization = $2", e.KeyID, id, e.At)
	case organization.LimitsSet:
		batch.Queue("UPDATE organizations SET limits = $2 WHERE id = $1", id, e.Limits)
	case organization.Suspended:
		batch.Queue("UPDATE organizations SET status = 'suspended', suspended_at = $2 WHERE id = $1", id, e.At)
	case organization.Resumed:
		batch.Queue("UPDATE organizations SET status = 'registered' WHERE id = $1", id)
	case organization.Deleted:
		batch.Queue("DELETE FROM organizations WHERE id = $1", id)
		batch.Queue("DELETE FROM keys WHERE organization = $1", id)
	}
	return nil
}
