package delivery

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/eventstore"
)

// discard ends a delivery that may not be sent any more, or its replay, and retries while the store is unavailable.
func (d *Deliverer) discard(ctx context.Context, job *Job, reason string) {
	at := d.Now().UTC().Truncate(time.Microsecond)
	command := delivery.Command(delivery.Discard{Reason: reason, At: at})
	if job.Replay != uuid.Nil {
		command = delivery.DropReplay{Replay: job.Replay, Reason: reason, At: at}
	}
	options := delivery.Options{CommandID: uuid.New(), Known: job.Known, Metadata: eventstore.Metadata{
		Organization:  job.Organization,
		CorrelationID: job.Body.Event,
		CausationID:   job.ID,
		Actor:         DelivererName,
		Reason:        reason,
	}}
	for {
		_, err := delivery.Aggregate.Execute(ctx, d.Store, job.ID, command, options)
		switch {
		case err == nil:
			d.Log.Info("delivery discarded", "delivery", job.ID, "destination", job.Destination, "organization",
				job.Organization, "reason", reason)
			return
		case ctx.Err() != nil:
			return
		case errors.Is(err, eventstore.ErrStreamDeleted):
			d.end(job)
			return
		}
		d.Log.Warn("delivery not discarded yet", "delivery", job.ID, "error", err)
		select {
		case <-ctx.Done():
			return
		case <-time.After(recordPause):
		}
	}
}
