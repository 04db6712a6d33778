package adapters

import (
	"context"
	"errors"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/query"
)

// Backlog is command.Backlog on the read model of deliveries.
type Backlog struct {
	Queries *query.Queries
	Runner  *projections.Runner
}

var _ command.Backlog = Backlog{}

// Undelivered implements command.Backlog. It sees what was recorded before it was asked.
func (b Backlog) Undelivered(ctx context.Context, f command.UndeliveredFilter) ([]command.Undelivered, error) {
	err := b.Runner.Wait(deliveries.ReadModel).For(ctx, newestPatience)
	if err != nil && !errors.Is(err, projections.ErrBehind) {
		return nil, err
	}
	found, err := b.Queries.Undelivered(ctx, query.UndeliveredFilter(f))
	return wire.ListOf(found, func(d query.Undelivered) command.Undelivered { return command.Undelivered(d) }), err
}
