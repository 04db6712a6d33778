package query

import (
	"context"
	"time"

	"github.com/google/uuid"
)

// DeliveriesOfMany is Deliveries as it answers where very many are pending.
func (q *Queries) DeliveriesOfMany(ctx context.Context, organization, destination uuid.UUID, f DeliveryFilter, now time.Time) ([]Delivery, int, error) {
	l := listing{filter: f, organization: organization, destination: destination, now: now, few: -1}
	return l.answer(ctx, q.Pool)
}
