// Package query reads the read models: SQL in, typed rows out. It changes and decides nothing.
package query

import (
	"context"
	"errors"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Queries has a method for each question. Its methods change nothing.
type Queries struct {
	Pool *pgxpool.Pool
	// WithoutRelevance omits the relevance of items.
	WithoutRelevance bool
	// AwaitPublished waits until the read model has all that was published before: publishing waits for no reader. An
	// error is that of ctx, or says that the rows are old. Optional.
	AwaitPublished func(context.Context) error

	pages    memory[pageKind, *page] // of item lists
	totals   memory[uuid.UUID, *total]
	outlines memory[outlineKind, *outline]
}

// seePublished waits for AwaitPublished. Old rows are shown.
func (q *Queries) seePublished(ctx context.Context) {
	if q.AwaitPublished != nil {
		_ = q.AwaitPublished(ctx)
	}
}

// ErrNotFound is returned if there is no such row, or if it belongs to another organization.
var ErrNotFound = errors.New("not found")
