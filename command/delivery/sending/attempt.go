package sending

import (
	"context"
	"errors"
	"net/http"
	"time"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/command"
	"carillon/command/delivery/facts"
	"carillon/command/delivery/schedule"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Name is the deliverer's name as actor.
const Name = "deliverer"

// recordPause is the wait before a retry while the store or the keys are unavailable.
const recordPause = time.Second

// attempt sends one delivery and records the outcome. It returns the outcome of the request.
func (d *Deliverer) attempt(ctx context.Context, held *schedule.Delivery) (outcome schedule.Outcome) {
	if !d.holds(ctx, held) {
		return outcome
	}
	request, showsTrace, err := d.prepare(ctx, held)
	if err != nil {
		d.unsent(ctx, held, request.Now, err)
		return outcome
	}
	ctx, own, end := d.traceAttempt(ctx, held)
	if showsTrace {
		request.Trace = own
	}
	result := d.Sender.Send(ctx, request)
	if end != nil {
		defer end(result)
	}
	if result.Aborted { // we stopped
		d.release(context.WithoutCancel(ctx), held.ID)
		return outcome
	}
	d.restAfter(context.WithoutCancel(ctx), held, result)
	d.record(ctx, held, request.Now, result)
	_, isRefused := refused(result)
	return schedule.Outcome{
		Took:    max(result.Duration, 1),
		Failed:  overloaded(result),
		Refused: isRefused,
		Kept:    result.Kept,
	}
}

// overloaded reports whether an answer says that the receiver can't take as much: none came, or it says so.
func overloaded(r webhook.Result) bool {
	return r.StatusCode == 0 || r.StatusCode == http.StatusTooManyRequests ||
		r.StatusCode >= http.StatusInternalServerError
}

// unsent handles the reason why a delivery was not sent.
func (d *Deliverer) unsent(ctx context.Context, held *schedule.Delivery, now time.Time, err error) {
	lost, isLost := errors.AsType[facts.NotEntitledError](err)
	switch {
	case errors.Is(err, facts.ErrDeleted): // the read model drops the delivery by itself
	case errors.Is(err, facts.ErrStopped), errors.Is(err, errLeaseEnds):
		d.release(context.WithoutCancel(ctx), held.ID)
	case errors.Is(err, facts.ErrCertificateLost):
		d.Log.Error("delivery can't be sent: the key of the organization's client certificate can't be opened; "+
			"set the certificate again (carillon org certificate set)",
			"delivery", held.ID, "destination", held.Destination, "organization", held.Organization, "error", err)
		d.record(ctx, held, now, facts.CertificateLost())
	case isLost:
		d.discard(ctx, held, lost.Reason)
	case d.keyless(ctx, held, err):
		d.Log.Error("delivery can't be sent: sealed values of the destination can't be opened", "delivery",
			held.ID, "destination", held.Destination, "error", err)
		d.record(ctx, held, now, webhook.Result{FailureReason: delivery.FailureConnection, ErrorMessage: keylessMessage})
	default:
		d.abandon(ctx, held, err)
	}
}

// holds reports whether a delivery is still this worker's, and waits while that is unknown: this process or Postgres
// may have been stopped, and others may have taken the delivery over. A delivery that was just handed over does not
// wait. A lost delivery is left alone.
func (d *Deliverer) holds(ctx context.Context, held *schedule.Delivery) bool {
	for {
		losses, sure := d.Queue.Holding()
		switch {
		case !held.Claimed && time.Since(held.QueuedAt) < freshFor:
			return true
		case losses != held.Losses:
			return false
		case sure:
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(holdingWait):
		}
	}
}

// keylessMessage describes the remedy to the destination's owner.
const keylessMessage = "the destination's secrets, address or headers can't be read any more; rotate its secret " +
	"and set its address and headers anew"

// keyless reports that sealed values of a destination can't be opened permanently, although it was not deleted.
func (d *Deliverer) keyless(ctx context.Context, held *schedule.Delivery, err error) bool {
	if !errors.Is(err, sealing.ErrShredded) && !errors.Is(err, sealing.ErrDamaged) {
		return false
	}
	known, err := destination.Aggregate.Load(ctx, d.Store, held.Destination)
	return err == nil && known.State.VisibleTo(held.Organization)
}

// errLeaseEnds: the lease ends before the request would; the next claim sends the delivery.
var errLeaseEnds = errors.New("the lease ends too soon")

// prepare reads the current data that the request needs. While the keys or the store can't be reached it tries again,
// as long as the lease allows.
func (d *Deliverer) prepare(
	ctx context.Context, held *schedule.Delivery,
) (request webhook.Request, showsTrace bool, err error) {
	for {
		now := d.Now()
		if held.LeasedUntil.Sub(d.Queue.Now()) < d.Policy.Timeout {
			return webhook.Request{Now: now}, false, errLeaseEnds
		}
		request, showsTrace, err = d.requestOf(ctx, held, now)
		if err == nil || !errors.Is(err, command.ErrUnavailable) && !errors.Is(err, eventstore.ErrUnavailable) {
			return request, showsTrace, err
		}
		select {
		case <-ctx.Done():
			return request, false, ctx.Err()
		case <-time.After(recordPause):
		}
	}
}

// requestOf makes the request of a delivery if it may still be made.
func (d *Deliverer) requestOf(
	ctx context.Context, held *schedule.Delivery, now time.Time,
) (request webhook.Request, showsTrace bool, err error) {
	request.Now = now
	to, via, err := d.Facts.MaySend(ctx, held, now)
	if err != nil {
		return request, false, err
	}
	body, err := bodyOf(held).Bytes()
	return to.Request(held.ID, body, now, via), to.Traceparent, err
}

// abandon leaves a delivery that can't be sent now. A destination whose data key is gone was deleted: then the read
// model drops the delivery by itself.
func (d *Deliverer) abandon(ctx context.Context, held *schedule.Delivery, err error) {
	if errors.Is(err, sealing.ErrShredded) || ctx.Err() != nil {
		return
	}
	// The lease stays, so that it is tried again after a while and not at once.
	d.mu.Lock()
	d.setAside[held.ID] = held.LeasedUntil
	d.mu.Unlock()
	d.Log.Error("delivery can't be sent", "delivery", held.ID, "destination", held.Destination, "error", err)
}

// end stops sending a delivery whose stream was deleted by another client of the event store: nothing can be recorded
// in it, and its row stays due.
func (d *Deliverer) end(held *schedule.Delivery) {
	d.mu.Lock()
	d.setAside[held.ID], d.ended[held.ID] = held.LeasedUntil, struct{}{}
	d.mu.Unlock()
	d.Log.Error("delivery's stream was deleted by another client, outcome lost; this process does not send it again",
		"delivery", held.ID, "destination", held.Destination, "organization", held.Organization)
}
