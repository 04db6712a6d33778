package adapters

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/cascade"
	"carillon/command/delivery/dispatching"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
	"carillon/projections/subscriptions"
	"carillon/query"
)

// Holdings is cascade.Holdings on the read models, and more that the delivery asks them.
type Holdings struct {
	Runner  *projections.Runner
	Queries *query.Queries
	Vault   *sealing.Vault
}

var _ cascade.Holdings = Holdings{}

// Dispatched implements cascade.Holdings.
func (h Holdings) Dispatched(ctx context.Context, to eventstore.Position) error {
	if !h.Runner.Progress.AwaitRecorded(ctx, to, dispatching.Name) {
		return fmt.Errorf("waiting for the dispatcher: %w", ctx.Err())
	}
	return h.Runner.Newest(ctx, deliveries.ReadModel, subscriptions.ReadModel)
}

// Cascaded waits until what follows from the deletion at a position is in the read models of deliveries and
// subscriptions. It reports false when the context ended first.
func (h Holdings) Cascaded(ctx context.Context, to eventstore.Position) bool {
	return h.Runner.Progress.AwaitRecorded(ctx, to, cascade.Name) &&
		h.Runner.Newest(ctx, deliveries.ReadModel, subscriptions.ReadModel) == nil
}

// Shred implements cascade.Holdings.
func (h Holdings) Shred(ctx context.Context, destination uuid.UUID) error {
	return h.Vault.Shred(ctx, destination)
}

// Orphaned implements cascade.Holdings.
func (h Holdings) Orphaned(ctx context.Context, destination, subscription uuid.UUID) ([]uuid.UUID, error) {
	return h.Queries.OrphanedDeliveries(ctx, destination, subscription)
}

// Standing returns the suspended organizations, and the destinations with a limit of requests per second, as of all
// that is recorded when it is called.
func (h Holdings) Standing(ctx context.Context) (suspended []uuid.UUID, limits map[uuid.UUID]float64, err error) {
	if err := h.Runner.Newest(ctx, organizations.ReadModel, destinations.ReadModel); err != nil {
		return nil, nil, err
	}
	if suspended, err = h.Queries.SuspendedOrganizations(ctx); err == nil {
		limits, err = h.Queries.DestinationLimits(ctx)
	}
	return suspended, limits, err
}

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
