package sending

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/command/delivery/schedule"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// record appends the outcome of a request.
func (d *Deliverer) record(ctx context.Context, held *schedule.Delivery, at time.Time, result webhook.Result) {
	trigger := delivery.Automatic
	if held.Replay != uuid.Nil {
		trigger = delivery.ManualReplay
	}
	d.Count(Attempt{FailureReason: result.FailureReason, Duration: result.Duration, Trigger: trigger})
	var sealed answer
	d.untilRecorded(ctx, held, func(options delivery.Options) error {
		if err := d.seal(ctx, held.Destination, result, &sealed); err != nil {
			return err
		}
		attempt := d.outcome(held, trigger, at, result, sealed)
		if result.FailureReason != "" && trigger == delivery.Automatic {
			wanted, err := d.Facts.Subscribed(ctx, held.Subscriptions)
			if err != nil {
				return err
			}
			attempt.Retry.Never = attempt.Retry.Never || !wanted // its last subscription was deleted meanwhile
		}
		// Lost with the process, it is sent again, as what is in flight then.
		out, err := delivery.Aggregate.Execute(eventstore.Linger(ctx), d.Store, held.ID, attempt, options)
		if err != nil {
			return err
		}
		logAttempt(ctx, d.attempts, held, attemptedBy(attempt, out.Events))
		if result.FailureReason != "" && d.Failed != nil {
			d.Failed(out.Position)
		}
		return nil
	})
}

// discard ends a delivery that may not be sent any more, or its replay.
func (d *Deliverer) discard(ctx context.Context, held *schedule.Delivery, reason string) {
	at := d.Now().UTC().Truncate(time.Microsecond)
	command := delivery.Command(delivery.Discard{Reason: reason, At: at})
	if held.Replay != uuid.Nil {
		command = delivery.DropReplay{Replay: held.Replay, Reason: reason, At: at}
	}
	d.untilRecorded(ctx, held, func(options delivery.Options) error {
		options.Metadata.Reason = reason
		_, err := delivery.Aggregate.Execute(ctx, d.Store, held.ID, command, options)
		if err == nil {
			d.Log.Info("delivery discarded", "delivery", held.ID, "destination", held.Destination, "organization",
				held.Organization, "reason", reason)
		}
		return err
	})
}

// untilRecorded appends what came of a delivery, and retries while the store or the keys are unavailable: it must not
// be lost.
func (d *Deliverer) untilRecorded(ctx context.Context, held *schedule.Delivery, write func(delivery.Options) error) {
	options := delivery.Options{CommandID: uuid.New(), Known: knownOf(held), Metadata: eventstore.Metadata{
		Organization:  held.Organization,
		CorrelationID: held.Event,
		CausationID:   held.ID,
		Actor:         Name,
	}}
	for {
		err := write(options)
		switch {
		case err == nil, errors.Is(err, sealing.ErrShredded), ctx.Err() != nil:
			return
		case errors.Is(err, eventstore.ErrUndecodable):
			d.abandon(ctx, held, err)
			return
		case errors.Is(err, eventstore.ErrStreamDeleted):
			d.end(held)
			return
		}
		d.Log.Warn("outcome of a delivery not recorded yet", "delivery", held.ID, "error", err)
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

func (d *Deliverer) outcome(held *schedule.Delivery, trigger delivery.Trigger, at time.Time, r webhook.Result,
	sealed answer) delivery.RecordAttempt {
	return delivery.RecordAttempt{
		Organization: held.Organization,
		Destination:  held.Destination,
		Type:         bodyOf(held).Published.Type,
		Number:       held.Attempts + 1,
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
