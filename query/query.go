// Package query reads the read models: SQL in, typed rows out. It changes and decides nothing.
package query

import (
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Queries has a method for each question. Its methods change nothing.
type Queries struct {
	Pool *pgxpool.Pool
	// WithoutRelevance omits the relevance of items.
	WithoutRelevance bool

	pages    memory[pageKind, *page] // of item lists
	totals   memory[uuid.UUID, *total]
	outlines memory[outlineKind, *outline]
}

// ErrNotFound is returned if there is no such row, or if it belongs to another organization.
var ErrNotFound = errors.New("not found")
