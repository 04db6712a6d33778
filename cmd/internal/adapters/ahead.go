package adapters

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/eventstore/panics"
)

const (
	countWait  = 5 * time.Second       // for Postgres
	countPass  = time.Second           // how long requests pass after it has not answered
	countRest  = 50 * time.Millisecond // how long a limit is known to be reached
	heldOrgs   = 10_000                // organizations that are remembered
	rateShare  = 20
	writeShare = 10_000
)

// Ahead counts requests of organizations against a limit, over all processes. Each process counts some ahead, so that
// Postgres is rarely asked. If Postgres does not answer, they pass.
type Ahead struct {
	Limiter

	Now     func() time.Time
	share   int // this part of the limit is counted at once
	refused func(organization.Limit)
	all     *lru.Cache[uuid.UUID, *allowance]
}

// NewRequestRate returns the limit of requests in a second. refused counts refusals. Optional.
func NewRequestRate(pool *pgxpool.Pool, refused func(organization.Limit)) *Ahead {
	return newAhead(pool, organization.LimitRequestsPerSecond, rateShare, refused)
}

// NewWrites returns the limit of requests in a day that change something. refused counts refusals. Optional.
func NewWrites(pool *pgxpool.Pool, refused func(organization.Limit)) *Ahead {
	return newAhead(pool, organization.LimitWritesPerDay, writeShare, refused)
}

func newAhead(pool *pgxpool.Pool, limit organization.Limit, share int, refused func(organization.Limit)) *Ahead {
	return &Ahead{
		Limiter: Limiter{pool, limit.Definition()},
		Now:     time.Now,
		share:   share,
		refused: refused,
		all:     wire.NewRecent[uuid.UUID, *allowance](heldOrgs),
	}
}

// allowance holds the requests of an organization that are counted already.
type allowance struct {
	mu    sync.Mutex
	most  int // the limit, as far as it is known
	left  int
	until time.Time // left and refused hold until then
	asked *asked    // the question that is in flight, or was refused; nil if there is none
}

// asked is a question to Postgres, and its answer once done is closed.
type asked struct {
	done chan struct{}
	wait time.Duration
	err  error
}

func (q *asked) answered() bool {
	select {
	case <-q.done:
		return true
	default:
		return false
	}
}

// Take counts a request. Beyond the limit it returns an *organization.LimitError, and the time until the next one is
// allowed. Those that come while Postgres is asked wait for the same answer.
func (h *Ahead) Take(ctx context.Context, of uuid.UUID) (wait time.Duration, err error) {
	a := wire.GetOrAdd(h.all, of, func() *allowance { return &allowance{most: h.Of.Default} })
	for {
		question := h.askUnlessLeft(ctx, of, a)
		if question == nil {
			return 0, nil
		}
		select {
		case <-question.done:
		case <-ctx.Done():
			return 0, fmt.Errorf("count %s: %w", h.Of.Limit, ctx.Err())
		}
		if question.err != nil {
			if _, reached := errors.AsType[*organization.LimitError](question.err); reached && h.refused != nil {
				h.refused(h.Of.Limit)
			}
			return question.wait, question.err
		}
	}
}

// askUnlessLeft takes a request that is counted already, or returns the question that counts more.
func (h *Ahead) askUnlessLeft(ctx context.Context, of uuid.UUID, a *allowance) *asked {
	a.mu.Lock()
	defer a.mu.Unlock()
	holds := h.Now().Before(a.until)
	switch {
	case a.left > 0 && holds:
		a.left--
		return nil
	case a.asked == nil, a.asked.answered() && !holds:
		question := &asked{done: make(chan struct{}), err: fmt.Errorf("count %s: %w", h.Of.Limit, command.ErrUnavailable)}
		a.asked = question
		go panics.Func("limits", func() { h.ask(context.WithoutCancel(ctx), of, a, question) })()
	}
	return a.asked
}

// ask counts some requests ahead, or as many as there is room for.
func (h *Ahead) ask(ctx context.Context, of uuid.UUID, a *allowance, question *asked) {
	ctx, cancel := context.WithTimeout(ctx, countWait)
	defer cancel()
	var got counting
	n := max(1, a.most/h.share) // no other question reads or changes it meanwhile
	defer func() {              // also after a panic
		a.mu.Lock()
		defer a.mu.Unlock()
		_, reached := errors.AsType[*organization.LimitError](question.err)
		switch now := h.Now(); {
		case question.err == nil:
			a.asked, a.left, a.until = nil, n, now.Add(h.Of.Window)
		case reached:
			a.left, a.until = 0, now.Add(countRest)
		default:
			a.asked, a.left, a.until = nil, math.MaxInt, now.Add(countPass)
		}
		a.most, question.wait = got.most, got.wait
		close(question.done)
	}()
	if got, question.err = h.count(ctx, of, n); question.err != nil && got.room > 0 {
		n = min(got.room, max(1, got.most/h.share))
		got, question.err = h.count(ctx, of, n)
	}
}
