// Package query reads the read models: SQL in, typed rows out. It changes nothing and decides nothing.
package query

import (
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Queries has a method for each question. The methods return what they read and change nothing.
type Queries struct {
	Pool *pgxpool.Pool
	// WithoutRelevance leaves the relevance of items out.
	WithoutRelevance bool

	pages    memory[pageKind, *page] // of item lists
	totals   memory[uuid.UUID, *total]
	outlines memory[outlineKind, *outline]
}

// ErrNotFound: no such row, or not one of the organization that asks.
var ErrNotFound = errors.New("not found")
