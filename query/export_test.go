package query

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// DeliveriesOfMany is Deliveries as it runs with a large backlog.
func (q *Queries) DeliveriesOfMany(ctx context.Context, organization, destination uuid.UUID, f DeliveryFilter,
	now time.Time) ([]Delivery, int, error) {
	l := listing{
		filter:       f,
		organization: organization,
		destination:  destination,
		now:          now,
		inlineLimit:  -1,
	}
	return l.answer(ctx, q.Pool)
}

// AppendLegacy is appendLegacy.
var AppendLegacy = appendLegacy
