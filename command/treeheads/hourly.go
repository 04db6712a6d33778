package treeheads

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/seal"
)

const (
	sealEvery = time.Hour
	sealFirst = 10 * time.Minute // after the start, if the log has no head
	sealAgain = 10 * time.Minute // after a failure
	sealSoon  = time.Minute      // after the start if the last head is old, and while another process seals
)

// ErrSealing means that another process seals now.
var ErrSealing = errors.New("another process seals")

// Hourly seals the log every hour if anything is new, in one process of all.
type Hourly struct {
	*Sealer

	// Lock takes the lock of the process that seals, or fails with ErrSealing.
	Lock   func(context.Context) (release func(), err error)
	Outbox *Outbox // nil means that heads are kept nowhere else
	Log    *slog.Logger
	// Started is when the process did.
	Started time.Time

	mu      sync.Mutex
	covered time.Time // when the log was last found to be covered by a head; zero means never
	failure error     // of the last try
}

// Seal signs a head of what is in the log now.
func (h *Hourly) Seal(ctx context.Context, by eventstore.Metadata) ([]seal.Head, error) {
	heads, err := h.Sealer.Seal(ctx, by)
	text := base64.StdEncoding.EncodeToString
	for i := range heads {
		head := &heads[i]
		h.Log.Info("log sealed", "size", head.Size, "root", text(head.Root), "at", head.At, "kept", text(head.Kept),
			"key", text(head.Key), "signature", text(head.Signature))
	}
	if h.Outbox != nil {
		h.Outbox.Add(heads...)
	}
	if ctx.Err() != nil {
		return heads, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.failure = err; err == nil {
		h.covered = h.Now()
	}
	return heads, err
}

// Cover seals until a head covers the event at a position.
func (h *Hourly) Cover(ctx context.Context, at eventstore.Position) error {
	for !h.covers(at) {
		if _, err := h.Seal(ctx, eventstore.Metadata{Actor: "carillon"}); err != nil {
			return err
		}
	}
	return nil
}

// Run seals until the context ends. It also sends the newest head elsewhere once more, in case the process before ended
// too early for that.
func (h *Hourly) Run(ctx context.Context) error {
	last, _, err := h.Last(ctx)
	wait := sealFirst
	if err == nil && last != nil {
		wait = max(sealSoon, h.rest(last))
		if h.Outbox != nil {
			h.Outbox.Add(*last)
		}
	}
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
			wait = h.turn(ctx)
		}
	}
}

// turn seals if it is time, and returns how long to wait for the next turn.
func (h *Hourly) turn(ctx context.Context) time.Duration {
	within, cancel := context.WithTimeout(ctx, sealEvery)
	defer cancel()
	release, err := h.Lock(within)
	if errors.Is(err, ErrSealing) {
		return sealSoon
	}
	if err == nil {
		defer release()
		if last, _, err := h.Last(within); err == nil && last != nil && h.rest(last) > 0 {
			h.ended(nil)
			return h.rest(last)
		}
		_, err = h.Seal(within, eventstore.Metadata{Actor: "carillon"})
	}
	if err == nil || ctx.Err() != nil {
		return sealEvery
	}
	h.ended(err)
	h.Log.Error("log could not be sealed, tried again", "after", sealAgain, "error", err)
	return sealAgain
}

// ended takes the outcome of a try.
func (h *Hourly) ended(failure error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failure = failure
}

// rest returns how long a head is new enough.
func (h *Hourly) rest(last *seal.Head) time.Duration {
	return min(sealEvery, sealEvery-h.Now().Sub(last.At))
}

// NextBy returns the time by which a head follows the last one, if anything is new.
func NextBy(last *seal.Head, now time.Time) time.Time {
	if due := last.At.Add(sealEvery + sealSoon); due.After(now) {
		return due
	}
	return now.UTC().Add(sealAgain) // it is late
}

// Age returns the time since the log was last known to be covered by a head: one was signed, or nothing was new.
// Without a head it is the time since the start. It also returns the newest head that is known; nil means none.
func (h *Hourly) Age(ctx context.Context) (age time.Duration, last *seal.Head) {
	last, _, _ = h.Last(ctx)
	at := h.Started
	if last != nil {
		at = last.At
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.covered.After(at) {
		at = h.covered
	}
	return h.Now().Sub(at), last
}

// Warnings are those of readiness and status.
func (h *Hourly) Warnings() (warnings []string) {
	h.mu.Lock()
	if h.failure != nil {
		warnings = append(warnings, fmt.Sprintf("log could not be sealed, tried again every %s: %v", sealAgain, h.failure))
	}
	h.mu.Unlock()
	if h.Outbox == nil {
		return warnings
	}
	if waiting, err := h.Outbox.Waiting(); err != nil {
		warnings = append(warnings, fmt.Sprintf("tree heads that could not be kept elsewhere yet (CARILLON_SEAL_TO): %d: %v",
			waiting, err))
	}
	return warnings
}
