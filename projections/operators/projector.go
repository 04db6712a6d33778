// Package operators is the read model of operators and their tokens.
package operators

import (
	_ "embed"

	"github.com/jackc/pgx/v5"

	"carillon/aggregates/operator"
	"carillon/eventstore"
	"carillon/projections"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of operators and their tokens.
var ReadModel = projections.ReadModel{
	Name:    "operators",
	Version: 1,
	Schema:  schema,
	Filter:  eventstore.Categories(operator.Aggregate.Category),
	Project: projections.Statements(operator.Events.Decode, queue),
}

// Of two tokens with one id, which chance makes next to impossible, the older stays good.
const insertToken = `INSERT INTO tokens (id, name, hash, created_at, expires_at) VALUES ($1, $2, $3, $4, $5)
	ON CONFLICT (id) DO NOTHING`

// queue adds an event's statements.
func queue(batch *pgx.Batch, _ *eventstore.Recorded, event operator.Event) error {
	switch e := event.(type) {
	case operator.TokenIssued:
		batch.Queue(insertToken, e.TokenID, e.Name, e.Hash, e.At, e.ExpiresAt)
	case operator.TokenRotated:
		batch.Queue("UPDATE tokens SET expires_at = least(expires_at, $3) WHERE id = ANY($2) AND name = $1", e.Name,
			e.Ending, e.EndsAt)
		batch.Queue(insertToken, e.TokenID, e.Name, e.Hash, e.At, e.ExpiresAt)
	case operator.Revoked:
		batch.Queue("UPDATE tokens SET revoked_at = $2 WHERE name = $1 AND revoked_at IS NULL", e.Name, e.At)
	case operator.Acted: // for those who read the log
	}
	return nil
}
