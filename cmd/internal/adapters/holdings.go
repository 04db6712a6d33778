package adapters

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"carillon/command/delivery"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/organizations"
	"carillon/projections/subscriptions"
	"carillon/query"
)

// Holdings is delivery.Holdings on the read models, and more that the delivery asks them.
type Holdings struct {
	Store    eventstore.Store
	Progress *projections.Progress
	Queries  *query.Queries
	Vault    *sealing.Vault
}

var _ delivery.Holdings = Holdings{}

// Dispatched implements delivery.Holdings.
func (h Holdings) Dispatched(ctx context.Context, to eventstore.Position) error {
	if !h.Progress.AwaitRecorded(ctx, to, delivery.DispatcherName) {
		return fmt.Errorf("waiting for the dispatcher: %w", ctx.Err())
	}
	return h.settle(ctx)
}

// Cascaded waits until what follows from the deletion at a position is in the read models of deliveries and
// subscriptions. It reports false when the context ended first.
func (h Holdings) Cascaded(ctx context.Context, to eventstore.Position) bool {
	return h.Progress.AwaitRecorded(ctx, to, delivery.DeletionCascadeName) && h.settle(ctx) == nil
}

func (h Holdings) settle(ctx context.Context) error {
	for _, model := range []projections.ReadModel{deliveries.ReadModel, subscriptions.ReadModel} {
		if err := h.Progress.Settle(ctx, h.Store, model); err != nil {
			return err
		}
	}
	return nil
}

// Shred implements delivery.Holdings.
func (h Holdings) Shred(ctx context.Context, destination uuid.UUID) error {
	return h.Vault.Shred(ctx, destination)
}

// Orphaned implements delivery.Holdings.
func (h Holdings) Orphaned(ctx context.Context, destination, subscription uuid.UUID) ([]uuid.UUID, error) {
	return h.Queries.OrphanedDeliveries(ctx, destination, subscription)
}

// Suspended lists the suspended organizations, as of all that is recorded when it is called.
func (h Holdings) Suspended(ctx context.Context) ([]uuid.UUID, error) {
	if err := h.Progress.Settle(ctx, h.Store, organizations.ReadModel); err != nil {
		return nil, err
	}
	return h.Queries.SuspendedOrganizations(ctx)
}
