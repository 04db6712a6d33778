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
	// Confirm sets the position at which the claimed things were recorded; eventstore.Start means they were not.
	Confirm(ctx context.Context, id uuid.UUID, at eventstore.Position)
	// Spend counts n actions of an organization against its limit for a window of time, or none. wait is the time until
	// the next one is allowed, if they are not.
	Spend(ctx context.Context, of uuid.UUID, limit organization.Limit, n int) (wait time.Duration, err error)
	// Turn waits until no process backfills or recovers for an organization, for a few seconds. release ends the turn.
	// granted is false if the work is still done then.
	Turn(ctx context.Context, of uuid.UUID) (release func(), granted bool, err error)
	// TryTurn is Turn without waiting.
	TryTurn(ctx context.Context, of uuid.UUID) (release func(), granted bool, err error)
}

// amount of things of one organization that a limit counts, under an id.
type amount struct {
	of    uuid.UUID
	limit organization.Limit
	id    uuid.UUID
	n     int
}

// confirmTimeout bounds how long a request waits until what it claimed is confirmed. After that the claim counts for a
// while.
const confirmTimeout = 5 * time.Second

// errPartly is in an error of record if a part of the claim was recorded all the same.
var errPartly = errors.New("part of it was recorded")

// PatternsMask changes the first byte of a subscription's id to that of PatternsClaim.
const PatternsMask = 0xff

// PatternsClaim is the id by which the patterns and pins of a subscription are counted: the subscription itself is
// counted by its own.
func PatternsClaim(subscription uuid.UUID) uuid.UUID {
	subscription[0] ^= PatternsMask
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
		confirming, cancel := context.WithTimeout(context.WithoutCancel(ctx), confirmTimeout)
		defer cancel()
		quotas.Confirm(confirming, a.id, at)
	}
	return recorded, err
}

// spend refuses what is too much for a window of time.
func (c *Commands) spend(ctx context.Context, of uuid.UUID, limit organization.Limit, n int) error {
	if c.Quotas == nil || n == 0 {
		return nil
	}
	wait, err := c.Quotas.Spend(ctx, of, limit, n)
	if reached, ok := errors.AsType[*organization.LimitError](err); ok {
		return &Refusal{
			Kind:       RateLimited,
			RetryAfter: wait,
			Err:        err,
			Message: fmt.Sprintf("limit %s: your organization may send %d in %s; try again in %d s", limit, reached.Most,
				limit.Definition().Window, int(wait.Seconds())+1),
		}
	}
	return err
}

// turnPause is the time after which a caller should try again whose organization's turn is taken.
const turnPause = 5 * time.Second

// turn waits until no process backfills or recovers for an organization, or refuses it.
func (c *Commands) turn(ctx context.Context, of uuid.UUID) (release func(), err error) {
	if c.Quotas == nil {
		return func() {}, nil
	}
	release, granted, err := c.Quotas.Turn(ctx, of)
	if err == nil && !granted {
		err = &Refusal{
			Kind:       RateLimited,
			RetryAfter: turnPause,
			Message: fmt.Sprintf("limit %s: one backfill or recovery of your organization runs at a time, and another one "+
				"is running; try again in %d s", organization.BoundBackfills, int(turnPause.Seconds())),
		}
	}
	return release, err
}

// tryTurn takes the turn of turn if it is free.
func (c *Commands) tryTurn(ctx context.Context, of uuid.UUID) (release func(), granted bool, err error) {
	if c.Quotas == nil {
		return func() {}, true, nil
	}
	return c.Quotas.TryTurn(ctx, of)
}

// limitRefusal names the limit that is reached; other errors are returned unchanged.
func limitRefusal(err error) error {
	if reached, ok := errors.AsType[*organization.LimitError](err); ok {
		return &Refusal{Kind: Conflict, Message: reached.Error(), Err: err}
	}
	return err
}
