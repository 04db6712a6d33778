package httpapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
)

// Limits of one organization's requests in one process. An answer that is being written is in memory in part; an
// organization whose callers don't read theirs delays only itself.
const (
	maxUnderWay = 64
	maxReading  = 512             // whose bodies are being read: they hold up nothing but other bodies
	turnWait    = 5 * time.Second // for one of them to end
)

// turns bounds the requests of each organization that are in progress, and those whose bodies are being read.
type turns struct {
	refused func(organization.Limit) // counts; nil: nothing does

	mu  sync.Mutex
	all map[uuid.UUID]*organizationTurns
}

type organizationTurns struct {
	taken, reading chan struct{}

	here int // requests that are in progress, read their bodies or wait
}

// take waits for a turn, which the returned function ends.
func (t *turns) take(ctx context.Context, of uuid.UUID) (giveBack func(), err error) {
	return t.hold(ctx, of, t.enter(of).taken, organization.BoundRequests,
		"requests of your organization are in progress at this moment")
}

// takeReading is take for a body that is being read.
func (t *turns) takeReading(ctx context.Context, of uuid.UUID) (giveBack func(), err error) {
	return t.hold(ctx, of, t.enter(of).reading, organization.BoundBodies,
		"bodies of requests of your organization are being read at this moment")
}

// hold waits for room among those of an organization that are there, and takes it.
func (t *turns) hold(
	ctx context.Context, of uuid.UUID, there chan struct{}, bound organization.Limit, what string,
) (giveBack func(), err error) {
	if err := t.wait(ctx, there, bound, what); err != nil {
		t.leave(of)
		return nil, err
	}
	return func() { <-there; t.leave(of) }, nil
}

// wait waits for room among those that are there.
func (t *turns) wait(ctx context.Context, there chan<- struct{}, bound organization.Limit, what string) error {
	select {
	case there <- struct{}{}:
		return nil
	default:
	}
	patience := time.NewTimer(turnWait)
	defer patience.Stop()
	select {
	case there <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-patience.C:
		if t.refused != nil {
			t.refused(bound)
		}
		return wire.Limited(string(bound), cap(there), time.Second, what)
	}
}

func (t *turns) enter(organization uuid.UUID) *organizationTurns {
	t.mu.Lock()
	defer t.mu.Unlock()
	o := t.all[organization]
	if o == nil {
		o = &organizationTurns{taken: make(chan struct{}, maxUnderWay), reading: make(chan struct{}, maxReading)}
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

// admit waits for a turn of the request's organization. While the body is being read, it is given back. leave is to be
// called when the request has been answered.
func (t *turns) admit(r *http.Request, organization uuid.UUID) (leave func(), err error) {
	giveBack, err := t.take(r.Context(), organization)
	if err != nil || r.Body == nil || r.Body == http.NoBody {
		return giveBack, err
	}
	body := &turnBody{
		ReadCloser:   r.Body,
		request:      r,
		turns:        t,
		organization: organization,
		left:         r.ContentLength,
		giveBack:     giveBack,
	}
	r.Body = body
	return func() { body.giveBack() }, nil
}

// turnBody is the body of a request. The request has a turn before it is read, and after, but not meanwhile: callers
// who send slowly hold up nothing.
type turnBody struct {
	io.ReadCloser

	request      *http.Request
	turns        *turns
	organization uuid.UUID
	left         int64 // bytes that are to come; negative if that is not known
	begun, ended bool
	giveBack     func() // releases the held turn
}

// Read implements io.Reader.
func (b *turnBody) Read(p []byte) (int, error) {
	if !b.begun {
		b.begun = true
		if err := b.exchange(b.turns.takeReading); err != nil {
			return 0, err
		}
	}
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.ended || b.left != 0 && !errors.Is(err, io.EOF) {
		return n, err
	}
	b.ended = true
	if err := b.exchange(b.turns.take); err != nil {
		return 0, err // with its last bytes, io.ReadFull would forget it
	}
	return n, err
}

// exchange returns what is held and takes something else.
func (b *turnBody) exchange(take func(context.Context, uuid.UUID) (func(), error)) error {
	b.giveBack()
	b.giveBack = func() {}
	giveBack, err := take(b.request.Context(), b.organization)
	if err == nil {
		b.giveBack = giveBack
	}
	return err
}

// inTurn answers a request when its organization has a turn.
func (a *API) inTurn(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		leave, err := a.turns.admit(r, callerOf(r).Organization)
		if err != nil {
			surfaceOf(r).WriteError(w, r, err)
			return
		}
		defer leave()
		next.ServeHTTP(w, r)
	})
}
