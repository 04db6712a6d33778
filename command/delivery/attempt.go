package delivery

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/command"
	"carillon/command/delivery/facts"
	"carillon/command/delivery/schedule"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// DelivererName is the deliverer's name as actor.
const DelivererName = "deliverer"

// recordPause is the wait before a retry while the store or the keys are unavailable.
const recordPause = time.Second

// attempt sends one delivery and records the outcome. It returns the outcome of the request.
func (d *Deliverer) attempt(ctx context.Context, job *Job) (nothing schedule.Outcome) {
	if !d.holds(ctx, job) {
		return nothing
	}
	request, err := d.prepare(ctx, job)
	if other, is := errors.AsType[limitError](err); is {
		return schedule.Outcome{Limit: &other.perSecond}
	}
	if err != nil {
		d.unsent(ctx, job, request.Now, err)
		return nothing
	}
	ctx, own, end := d.traceAttempt(ctx, job)
	if job.showsTrace {
		request.Trace = own
	}
	result := d.Sender.Send(ctx, request)
	if end != nil {
		defer end(result)
	}
	if result.Aborted { // we stopped
		d.release(context.WithoutCancel(ctx), job.ID)
		return nothing
	}
	d.restAfter(context.WithoutCancel(ctx), job, result)
	d.record(ctx, job, request.Now, result)
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
func (d *Deliverer) unsent(ctx context.Context, job *Job, now time.Time, err error) {
	lost, isLost := errors.AsType[facts.NotEntitledError](err)
	switch {
	case errors.Is(err, facts.ErrDeleted): // the read model drops the delivery by itself
	case errors.Is(err, facts.ErrStopped), errors.Is(err, errLeaseEnds):
		d.release(context.WithoutCancel(ctx), job.ID)
	case errors.Is(err, facts.ErrCertificateLost):
		d.Log.Error("delivery can't be sent: the key of the organization's client certificate can't be opened; "+
			"set the certificate again (carillon org certificate set)",
			"delivery", job.ID, "destination", job.Destination, "organization", job.Organization, "error", err)
		d.record(ctx, job, now, facts.CertificateLost())
	case isLost:
		d.discard(ctx, job, lost.Reason)
	case d.keyless(ctx, job, err):
		d.Log.Error("delivery can't be sent: sealed values of the destination can't be opened", "delivery",
			job.ID, "destination", job.Destination, "error", err)
		d.record(ctx, job, now, webhook.Result{FailureReason: delivery.FailureConnection, ErrorMessage: keylessMessage})
	default:
		d.abandon(ctx, job, err)
	}
}

// holds reports whether the job is still this worker's, and waits while that is unknown: this process or Postgres
// may have been stopped, and others may have taken the delivery over. A delivery that was just handed over does not
// wait. A lost delivery is left alone.
func (d *Deliverer) holds(ctx context.Context, job *Job) bool {
	for {
		losses, sure := d.Queue.Holding()
		switch {
		case job.fresh && time.Since(job.came) < freshFor:
			return true
		case losses != job.Losses:
			return false
		case sure:
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-time.After(holdingPoll):
		}
	}
}

// keylessMessage describes the remedy to the destination's owner.
const keylessMessage = "the destination's secrets, address or headers can't be read any more; rotate its secret " +
	"and set its address and headers anew"

// keyless reports that sealed values of a destination can't be opened permanently, although it was not deleted.
func (d *Deliverer) keyless(ctx context.Context, job *Job, err error) bool {
	if !errors.Is(err, sealing.ErrShredded) && !errors.Is(err, sealing.ErrDamaged) {
		return false
	}
	known, err := destination.Aggregate.Load(ctx, d.Store, job.Destination)
	return err == nil && known.State.VisibleTo(job.Organization)
}

// errLeaseEnds: the lease ends before the request would; the next claim sends the delivery.
var errLeaseEnds = errors.New("the lease ends too soon")

// prepare reads the current data that the request needs. While the keys or the store can't be reached it tries again,
// as long as the lease allows.
func (d *Deliverer) prepare(ctx context.Context, job *Job) (request webhook.Request, err error) {
	for {
		now := d.Now()
		if job.LeasedUntil.Sub(d.Queue.Now()) < d.Policy.Timeout {
			return webhook.Request{Now: now}, errLeaseEnds
		}
		request, err = d.requestOf(ctx, job, now)
		if err == nil || !errors.Is(err, command.ErrUnavailable) && !errors.Is(err, eventstore.ErrUnavailable) {
			return request, err
		}
		select {
		case <-ctx.Done():
			return request, ctx.Err()
		case <-time.After(recordPause):
		}
	}
}

// requestOf makes the request of a delivery if it may still be made.
func (d *Deliverer) requestOf(ctx context.Context, job *Job, now time.Time) (request webhook.Request, err error) {
	request.Now = now
	to, via, err := d.Facts.Admit(ctx, job.candidate(), now)
	switch {
	case err != nil:
		return request, err
	case float64(to.MaxRequestsPerSecond) != job.limit:
		return request, limitError{float64(to.MaxRequestsPerSecond)}
	}
	job.showsTrace = to.Traceparent
	body, err := job.Body.Bytes()
	return to.Request(job.ID, body, now, via), err
}

// abandon leaves a delivery that can't be sent now. A destination whose data key is gone was deleted: then the read
// model drops the delivery by itself.
func (d *Deliverer) abandon(ctx context.Context, job *Job, err error) {
	if errors.Is(err, sealing.ErrShredded) || ctx.Err() != nil {
		return
	}
	// The lease stays, so that it is tried again after a while and not at once.
	d.mu.Lock()
	d.resting[job.ID] = job.LeasedUntil
	d.mu.Unlock()
	d.Log.Error("delivery can't be sent", "delivery", job.ID, "destination", job.Destination, "error", err)
}

// end stops sending a delivery whose stream was deleted by another client of the event store: nothing can be recorded
// in it, and its row stays due.
func (d *Deliverer) end(job *Job) {
	d.mu.Lock()
	d.resting[job.ID], d.ended[job.ID] = job.LeasedUntil, struct{}{}
	d.mu.Unlock()
	d.Log.Error("delivery's stream was deleted by another client, outcome lost; this process does not send it again",
		"delivery", job.ID, "destination", job.Destination, "organization", job.Organization)
}

// record appends the outcome, and retries while the store is unavailable: the outcome must not be lost.
func (d *Deliverer) record(ctx context.Context, job *Job, at time.Time, result webhook.Result) {
	trigger := delivery.Automatic
	if job.Replay != uuid.Nil {
		trigger = delivery.ManualReplay
	}
	d.Record(Attempt{FailureReason: result.FailureReason, Duration: result.Duration, Trigger: trigger})
	options := delivery.Options{CommandID: uuid.New(), Known: job.Known, Metadata: eventstore.Metadata{
		Organization:  job.Organization,
		CorrelationID: job.Body.Event,
		CausationID:   job.ID,
		Actor:         DelivererName,
	}}
	var sealed answer
	for {
		err := d.seal(ctx, job.Destination, result, &sealed)
		if err == nil {
			attempt := d.outcome(job, trigger, at, result, sealed)
			if result.FailureReason != "" && trigger == delivery.Automatic {
				var wanted bool
				wanted, err = d.Facts.Subscribed(ctx, job.Subscriptions)
				attempt.Retry.Never = attempt.Retry.Never || !wanted // its last subscription was deleted meanwhile
			}
			var out eventstore.Outcome[delivery.State, delivery.Event]
			if err == nil {
				out, err = delivery.Aggregate.Execute(ctx, d.Store, job.ID, attempt, options)
			}
			if err == nil {
				logAttempt(ctx, d.attempts, job, attemptedBy(attempt, out.Events))
				if result.FailureReason != "" && d.Failed != nil {
					d.Failed(out.Position)
				}
			}
		}
		switch {
		case err == nil, errors.Is(err, sealing.ErrShredded), ctx.Err() != nil:
			return
		case errors.Is(err, eventstore.ErrUndecodable):
			d.abandon(ctx, job, err)
			return
		case errors.Is(err, eventstore.ErrStreamDeleted):
			d.end(job)
			return
		}
		d.Log.Warn("attempt outcome not recorded yet", "delivery", job.ID, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(recordPause):
		}
	}
}

// answer is the sealed body and headers of a response.
type answer struct{ body, headers []byte }

// seal seals what is not sealed yet.
func (d *Deliverer) seal(ctx context.Context, destination uuid.UUID, result webhook.Result, into *answer) (err error) {
	if into.body == nil && result.Body != "" {
		into.body, err = d.Vault.Seal(ctx, destination, sealing.ResponseBody, []byte(result.Body))
	}
	if err == nil && into.headers == nil && result.Headers != "" {
		into.headers, err = d.Vault.Seal(ctx, destination, sealing.ResponseHeaders, []byte(result.Headers))
	}
	return err
}

// attemptedBy returns the recorded attempt. If an earlier try recorded it and its answer was lost, it returns the
// requested one.
func attemptedBy(command delivery.RecordAttempt, recorded []delivery.Event) delivery.Attempted {
	for _, event := range recorded {
		switch e := event.(type) {
		case delivery.Attempted:
			return e
		// An attempt records none of these.
		case delivery.Superseded, delivery.Discarded, delivery.Reinstated, delivery.ReplayRequested,
			delivery.ReplayDropped, delivery.RetryRequested:
		}
	}
	return delivery.Attempted{Number: command.Number, Outcome: command.Outcome}
}

func (d *Deliverer) outcome(job *Job, trigger delivery.Trigger, at time.Time, r webhook.Result,
	sealed answer) delivery.RecordAttempt {
	return delivery.RecordAttempt{
		Organization: job.Organization,
		Destination:  job.Destination,
		Number:       job.Attempts + 1,
		Trigger:      trigger,
		At:           at.UTC().Truncate(time.Microsecond),
		Outcome: delivery.Outcome{
			ResponseStatus:  r.StatusCode,
			ResponseBody:    sealed.body,
			ResponseHeaders: sealed.headers,
			FailureReason:   r.FailureReason,
			ErrorMessage:    r.ErrorMessage,
			DurationMicros:  r.Duration.Microseconds(),
		},
		Retry: delivery.Retry{
			Schedule: d.Policy.RetrySchedule,
			Spread:   retrySpread,
			Jitter:   d.Jitter(),
			Floor:    r.RetryAfter,
			Never:    r.StatusCode == http.StatusGone,
		},
	}
}
