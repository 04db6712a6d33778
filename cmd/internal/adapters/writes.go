package adapters

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
)

// writesAhead is the number of writes of an organization that a process counts at once, so that Postgres is rarely
// asked.
const writesAhead = 100

// Writes counts the requests by which organizations change something, over all processes. If Postgres does not answer,
// they pass.
type Writes struct {
	Quotas *Quotas

	mu  sync.Mutex
	all map[uuid.UUID]*allowance
}

// allowance holds the writes of an organization that are counted already.
type allowance struct {
	mu   sync.Mutex
	left int
}

// Take counts a write. Beyond the limit it returns an *organization.LimitError, and the time until the next one is
// allowed.
func (w *Writes) Take(ctx context.Context, of uuid.UUID) (wait time.Duration, err error) {
	a := w.of(of)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.left > 0 {
		a.left--
		return 0, nil
	}
	for _, n := range []int{writesAhead, 1} {
		wait, err = w.Quotas.spend(ctx, of, organization.LimitWritesPerDay, n)
		if err == nil {
			a.left = n - 1
			return 0, nil
		}
		if _, reached := errors.AsType[*organization.LimitError](err); !reached {
			return 0, err
		}
	}
	return wait, w.Quotas.refusal(err)
}

func (w *Writes) of(organization uuid.UUID) *allowance {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.all == nil || len(w.all) >= heldOrgs {
		w.all = map[uuid.UUID]*allowance{}
	}
	if w.all[organization] == nil {
		w.all[organization] = &allowance{}
	}
	return w.all[organization]
}
