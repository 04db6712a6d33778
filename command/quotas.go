package command

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/eventstore"
)

// Quotas counts what organizations have against their limits, over all processes. If it can't be reached, errors wrap
// ErrUnavailable.
type Quotas interface {
	// Claim counts things that are about to be made, under the id of one of them or of their maker. It fails with an
	// *organization.LimitError if the organization would exceed its limit.
	Claim(ctx context.Context, of uuid.UUID, limit organization.Limit, id uuid.UUID, amount int) error
	// Settle sets the position at which the claimed things were recorded; eventstore.Start means they were not.
	Settle(ctx context.Context, id uuid.UUID, at eventstore.Position)
	// Spend counts one action of an organization against its limit for a window of time. wait is the time until the next
	// one is allowed, if this one is not.
	Spend(ctx context.Context, of uuid.UUID, limit organization.Limit, window time.Duration) (wait time.Duration,
		err error)
}

// amount of things of one organization that a limit counts, under an id.
type amount struct {
	of    uuid.UUID
	limit organization.Limit
	id    uuid.UUID
	n     int
}

// settleTimeout bounds how long a request waits until what it claimed is settled. After that the claim counts for a
// while.
const settleTimeout = 5 * time.Second

// errPartly is in an error of record if a part of the claim was recorded all the same.
var errPartly = errors.New("part of it was recorded")

// PatternsClaim is the id by which the patterns and pins of a subscription are counted: the subscription itself is
// counted by its own.
func PatternsClaim(subscription uuid.UUID) uuid.UUID {
	subscription[0] ^= 0xff
	return subscription
}

// within makes things if their organization has room for them. quotas nil means that nothing is counted.
func within[T any](
	ctx context.Context, quotas Quotas, a amount, record func() (Result[T], error),
) (recorded Result[T], err error) {
	if quotas == nil {
		return record()
	}
	if err := quotas.Claim(ctx, a.of, a.limit, a.id, a.n); err != nil {
		return recorded, limitRefusal(err)
	}
	recorded, err = record()
	at := recorded.Position
	if err != nil && !errors.Is(err, errPartly) {
		at = eventstore.Start
	}
	if !errors.Is(err, eventstore.ErrUnavailable) && ctx.Err() == nil { // else it may have been recorded
		settling, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		quotas.Settle(settling, a.id, at)
	}
	return recorded, err
}

// spend refuses what is too much for a window of time.
func (c *Commands) spend(ctx context.Context, of uuid.UUID, limit organization.Limit, window time.Duration) error {
	if c.Quotas == nil {
		return nil
	}
	wait, err := c.Quotas.Spend(ctx, of, limit, window)
	if reached, ok := errors.AsType[*organization.LimitError](err); ok {
		return &Refusal{
			Kind:       RateLimited,
			RetryAfter: wait,
			Err:        err,
			Message: fmt.Sprintf("limit %s: your organization may send %d in %s; try again in %d s", limit, reached.Most,
				window, int(wait.Seconds())+1),
		}
	}
	return err
}

// limitRefusal names the limit that is reached; other errors are returned unchanged.
func limitRefusal(err error) error {
	if reached, ok := errors.AsType[*organization.LimitError](err); ok {
		return &Refusal{Kind: Conflict, Message: reached.Error(), Err: err}
	}
	return err
}
