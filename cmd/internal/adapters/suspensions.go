package adapters

import (
	"context"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/organizations"
	"carillon/query"
)

// Suspensions reports which organizations are suspended.
type Suspensions struct {
	Queries  *query.Queries
	Progress *projections.Progress
	Store    eventstore.Store
}

// List names them, as of all that is recorded when it is called.
func (s Suspensions) List(ctx context.Context) ([]uuid.UUID, error) {
	if err := s.Progress.Settle(ctx, s.Store, organizations.ReadModel); err != nil {
		return nil, err
	}
	return s.Queries.SuspendedOrganizations(ctx)
}
