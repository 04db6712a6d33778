package adapters

import (
	"context"
	"fmt"

	"github.com/google/uuid"

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
