package visiting

import (
	"context"
	"errors"
	"sync"
)

// maxUnrecorded limits the happenings that are being recorded before the next page is read. A single page may exceed
// it.
const maxUnrecorded = 800

// Backlog counts the happenings that pages have shown and that are not recorded yet. It delays readers that are faster
// than the recording, because waiting pages fill the memory. The zero value is empty; a nil Backlog counts nothing.
type Backlog struct {
	mu   sync.Mutex
	held int
	room chan struct{} // closed when there is room; nil if no reader waits
}

// Wait waits until a page may be read. It fails only with the context's cause.
func (b *Backlog) Wait(ctx context.Context) error {
	for {
		room := b.full()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// full returns nil if there is room, else a channel that is closed when there is.
func (b *Backlog) full() <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held < maxUnrecorded {
		return nil
	}
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// hold counts n happenings until letGo is called.
func (b *Backlog) hold(n int) (letGo func()) {
	if b == nil || n == 0 {
		return func() {}
	}
	b.add(n)
	return func() { b.add(-n) }
}

func (b *Backlog) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += n
	if b.held < maxUnrecorded && b.room != nil {
		close(b.room)
		b.room = nil
	}
}

// Outcomes of visits that failed for none of [Reasons].
const (
	outcomeOK          = "ok"        // the walk completed
	outcomeContinues   = "continues" // other visits of its host come first
	outcomePaused      = "paused"
	outcomeLost        = "lost"              // another process continues the walk
	outcomeStopped     = "stopped"           // with the process
	outcomeTrouble     = "trouble"           // in this process, such as an unreachable event store
	outcomeCredentials = "needs_credentials" //nolint:gosec // it is none
	outcomeJavaScript  = "needs_javascript"
)

// Outcomes returns all outcomes that Monitor.Visited gets, for the labels of a metric.
func Outcomes() []string {
	return append([]string{
		outcomeOK, outcomeContinues, outcomePaused, outcomeLost, outcomeStopped, outcomeTrouble, outcomeCredentials,
		outcomeJavaScript,
	}, Reasons()...)
}

func (v *visit) outcomeOf(ctx context.Context, err error) string {
	switch {
	case errors.Is(err, ErrLost), errors.Is(context.Cause(ctx), ErrLost):
		return outcomeLost
	case ctx.Err() != nil:
		return outcomeStopped
	case errors.Is(err, ErrPaused):
		return outcomePaused
	case err != nil:
		return outcomeTrouble
	}
	return v.outcome
}

// Kinds of changes that a visit finds of a happening.
const (
	foundNew     = "new"
	foundRevised = "revised"
	foundStale   = "stale"
)

// Kinds returns all kinds that Monitor.Found gets.
func Kinds() []string { return []string{foundNew, foundRevised, foundStale} }

func (v *visit) reportFound(news Tally) {
	if v.Found == nil {
		return
	}
	for kind, n := range map[string]int{foundNew: news.New, foundRevised: news.Revised, foundStale: news.WentStale} {
		for range n {
			v.Found(kind)
		}
	}
}
