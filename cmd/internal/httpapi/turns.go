package httpapi

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
)

// What one organization may have under way in one process. An answer that is being written is in memory in part; an
// organization whose callers don't read theirs holds up nobody but itself.
const (
	maxUnderWay = 64
	turnWait    = 5 * time.Second // for one of them to end
)

// turns bounds the requests of each organization that are under way.
type turns struct {
	mu  sync.Mutex
	all map[uuid.UUID]*organizationTurns
}

type organizationTurns struct {
	taken chan struct{}
	here  int // requests that are under way or wait
}

// take waits for a turn. Whoever got one gives it back with the function that is returned.
func (t *turns) take(ctx context.Context, organization uuid.UUID) (giveBack func(), err error) {
	o := t.enter(organization)
	select {
	case o.taken <- struct{}{}:
		return func() { <-o.taken; t.leave(organization) }, nil
	default:
	}
	patience := time.NewTimer(turnWait)
	defer patience.Stop()
	select {
	case o.taken <- struct{}{}:
		return func() { <-o.taken; t.leave(organization) }, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-patience.C:
		err = wire.Limited("requestsUnderWay", maxUnderWay, time.Second, "requests of your organization are under way at this moment")
	}
	t.leave(organization)
	return nil, err
}

func (t *turns) enter(organization uuid.UUID) *organizationTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.all[organization]
	if o == nil {
		o = &organizationTurns{taken: make(chan struct{}, maxUnderWay)}
		t.all[organization] = o
	}
	o.here++
	return o
}

func (t *turns) leave(organization uuid.UUID) {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.all[organization]
	if o.here--; o.here == 0 {
		delete(t.all, organization)
	}
}

// inTurn answers a request when its organization has a turn.
func (a *API) inTurn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		giveBack, err := a.turns.take(r.Context(), callerOf(r).Organization)
		if err != nil {
			surfaceOf(r).WriteError(w, r, err)
			return
		}
		defer giveBack()
		next.ServeHTTP(w, r)
	})
}
