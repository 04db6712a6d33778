package app

import (
	"context"
	"fmt"

	"github.com/google/uuid"

	"carillon/command"
	"carillon/command/delivery"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/query"
)

// holdings is delivery.Holdings on the read model of deliveries.
type holdings struct {
	store    eventstore.Store
	progress *projections.Progress
	queries  *query.Queries
	vault    command.Vault
}

var _ delivery.Holdings = holdings{}

// Dispatched implements delivery.Holdings.
func (h holdings) Dispatched(ctx context.Context, to eventstore.Position) error {
	if !h.progress.Await(ctx, to, delivery.DispatcherName) {
		return fmt.Errorf("waiting for the dispatcher: %w", ctx.Err())
	}
	return h.progress.Settle(ctx, h.store, deliveries.Projector{})
}

// Forget implements delivery.Holdings.
func (h holdings) Forget(ctx context.Context, destination uuid.UUID) error {
	return h.vault.Forget(ctx, destination)
}

// Orphaned implements delivery.Holdings.
func (h holdings) Orphaned(ctx context.Context, destination, subscription uuid.UUID) ([]uuid.UUID, error) {
	return h.queries.OrphanedDeliveries(ctx, destination, subscription)
}
