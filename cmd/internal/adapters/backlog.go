package adapters

import (
	"context"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/query"
)

// Backlog is command.Backlog on the read model of deliveries.
type Backlog struct {
	Queries  *query.Queries
	Progress *projections.Progress
	Store    eventstore.Store
}

var _ command.Backlog = Backlog{}

// Undelivered implements command.Backlog. It sees what was recorded before it was asked.
func (b Backlog) Undelivered(ctx context.Context, f command.UndeliveredFilter) ([]command.Undelivered, error) {
	settling, cancel := context.WithTimeout(ctx, settlePatience)
	defer cancel()
	if err := b.Progress.Settle(settling, b.Store, deliveries.ReadModel); err != nil && settling.Err() == nil {
		return nil, err
	}
	found, err := b.Queries.Undelivered(ctx, query.UndeliveredFilter(f))
	return wire.ListOf(found, func(d query.Undelivered) command.Undelivered { return command.Undelivered(d) }), err
}
