package treeheads

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"carillon/eventstore/seal"
)

const (
	// maxWaiting is how many heads wait at most. The oldest are dropped: later ones cover what they do.
	maxWaiting = 1000
	// sendAgain is between two tries to send a head.
	sendAgain = 10 * time.Minute
)

// Outbox sends heads elsewhere in their order, apart from the sealing, so that a place that does not answer delays no
// seal. Heads that can't be sent are sent again later.
type Outbox struct {
	Target *Target
	Log    *slog.Logger

	mu      sync.Mutex
	waiting []seal.Head
	failure error
	added   chan struct{}
}

// NewOutbox returns an outbox without heads.
func NewOutbox(target *Target, log *slog.Logger) *Outbox {
	return &Outbox{Target: target, Log: log, added: make(chan struct{}, 1)}
}

// Add adds heads to those that wait.
func (o *Outbox) Add(heads ...seal.Head) {
	o.mu.Lock()
	o.waiting = append(o.waiting, heads...)
	o.waiting = o.waiting[max(0, len(o.waiting)-maxWaiting):]
	o.mu.Unlock()
	select {
	case o.added <- struct{}{}:
	default: // it is awake
	}
}

// Waiting returns how many heads wait, and why the last try to send one failed.
func (o *Outbox) Waiting() (heads int, failure error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return len(o.waiting), o.failure
}

// Run sends until the context ends.
func (o *Outbox) Run(ctx context.Context) error {
	for {
		var again <-chan time.Time
		if !o.send(ctx) {
			again = time.After(sendAgain)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-o.added:
		case <-again:
		}
	}
}

// send sends the heads that wait, up to the first failure. It reports whether there was none.
func (o *Outbox) send(ctx context.Context) bool {
	for {
		o.mu.Lock()
		if len(o.waiting) == 0 {
			o.mu.Unlock()
			return true
		}
		head := o.waiting[0]
		o.mu.Unlock()
		err := o.Target.Send(ctx, &head)
		if ctx.Err() != nil {
			return false
		}
		o.sent(&head, err)
		if err != nil {
			o.Log.Warn("tree head could not be kept elsewhere (CARILLON_SEAL_TO), tried again", "after", sendAgain,
				"size", head.Size, "error", err)
			return false
		}
	}
}

// sent takes the outcome of a try.
func (o *Outbox) sent(head *seal.Head, failure error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.failure = failure
	if failure == nil && len(o.waiting) > 0 && o.waiting[0].Size == head.Size { // else it was dropped meanwhile
		o.waiting = o.waiting[1:]
	}
}
