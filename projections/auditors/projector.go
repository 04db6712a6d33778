// Package auditors is the read model of auditors' tokens.
package auditors

import (
	_ "embed"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/auditor"
	"carillon/eventstore"
	"carillon/projections"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of auditors' tokens.
var ReadModel = projections.ReadModel{
	Name:    "auditors",
	Version: 2,
	Schema:  schema,
	Filter:  eventstore.Categories(auditor.Aggregate.Category),
	Project: projections.Statements(auditor.Events.Decode, queue),
}

// queue adds an event's statements.
func queue(batch *pgx.Batch, _ *eventstore.Recorded, event auditor.Event) error {
	switch e := event.(type) {
	case auditor.TokenIssued:
		batch.Queue("INSERT INTO tokens (id, name, organization, hash, created_at, expires_at) VALUES ($1, $2, $3, $4, "+
			"$5, $6)",
			e.TokenID, e.Name, uuid.NullUUID{UUID: e.Organization, Valid: e.Organization != uuid.Nil}, e.Hash, e.At,
			e.ExpiresAt)
	case auditor.TokenRevoked:
		batch.Queue("UPDATE tokens SET revoked_at = $2 WHERE id = $1", e.TokenID, e.At)
	}
	return nil
}
