package wire

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"carillon/eventstore"
)

// AwaitLimit bounds how long an acknowledged write waits until it can be read. After that it is answered all the same.
const AwaitLimit = 2 * time.Second

// Readers are the consumers that answers to changes wait for.
type Readers struct {
	// Await waits until the named consumers have applied the event at a position; projections.Progress has it.
	Await func(ctx context.Context, to eventstore.Position, consumers ...string) bool
	// Cascaded waits until what follows from the deletion at a position can be read; adapters.Holdings has it. Optional.
	Cascaded func(ctx context.Context, to eventstore.Position) bool
}

// PendingHeader names the first consumer that had not applied a change when it was answered, after AwaitLimit.
const PendingHeader = "X-Carillon-Pending"

// See waits until consumers have applied a write, up to AwaitLimit, and reports whether they have. If not, the log of
// the request and PendingHeader of its answer name the first that has not.
func (rs Readers) See(ctx context.Context, to eventstore.Position, consumers ...string) bool {
	return await(ctx, func(ctx context.Context) (pending string) {
		for _, name := range consumers {
			if !rs.Await(ctx, to, name) { // of those after it nothing is known
				return name
			}
		}
		return ""
	})
}

func await(ctx context.Context, pendingOf func(context.Context) string) bool {
	ctx, cancel := context.WithTimeout(ctx, AwaitLimit)
	defer cancel()
	pending := pendingOf(ctx)
	if pending == "" {
		return true
	}
	Note(ctx, slog.String("pending", pending))
	if rec := recordOf(ctx); rec != nil {
		rec.header.Add(PendingHeader, pending)
	}
	return false
}

// Changed answers a change that was recorded at a position, once consumers have applied it, or its refusal.
func (rs Readers) Changed(
	r *http.Request, to eventstore.Position, refused error, reply Reply, consumers ...string,
) (Reply, error) {
	if refused != nil {
		return Reply{}, refused
	}
	rs.See(r.Context(), to, consumers...)
	return reply, nil
}

// Ended answers a deletion, or its refusal. It also waits for what follows: deliveries that are discarded,
// subscriptions that are switched off.
func (rs Readers) Ended(
	r *http.Request, to eventstore.Position, refused error, consumers ...string,
) (Reply, error) {
	reply, err := rs.Changed(r, to, refused, Done(), consumers...)
	if err == nil && rs.Cascaded != nil {
		await(r.Context(), func(ctx context.Context) string {
			if rs.Cascaded(ctx, to) {
				return ""
			}
			return "deletions"
		})
	}
	return reply, err
}
