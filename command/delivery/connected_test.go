package delivery

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/command/webhook"
	"carillon/eventstore/nodetest"
)

// sure is a queue by which jobs are this worker's.
type sure struct{ Queue }

func (sure) Holding() (losses int, sure bool) { return 0, true }
func (sure) Now() time.Time                   { return time.Now() }

// answering is a sender whose requests end with a result.
type answering struct{ webhook.Result }

func (a *answering) Send(context.Context, webhook.Request) webhook.Result { return a.Result }

// Whether the connection of an attempt was kept says whether the next one opens another, also after a time in which nothing
// was to be sent.
func TestAnAttemptTellsWhetherTheNextIsConnected(t *testing.T) {
	t.Parallel()
	sender := &answering{}
	d := &Deliverer{
		Store: nodetest.Start(t), Queue: sure{}, Sender: sender, Policy: DefaultPolicy, Limits: DefaultLimits,
		Now: time.Now, Jitter: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler), Record: func(Attempt) {},
	}
	d.init()
	d.suspended.set(nil)
	connected := false
	for _, kept := range []bool{false, true, true, false, false, true} {
		j := numbered(1, 1)
		j.Target.URL, j.LeasedUntil = "https://example.org", time.Now().Add(time.Hour)
		j.Body = &Body{Event: uuid.New(), Published: publication.Published{Type: "news.item.added", Data: []byte("{}")}}
		d.lanes.add(j, false)
		started, ok := d.lanes.next(nothing, calm)
		if !ok {
			t.Fatal("nothing was started")
		}
		if l := d.lanes.lanes[j.Target.ID]; l.connected != connected {
			t.Errorf("connected: %t, want %t", l.connected, connected)
		}
		sender.Result = webhook.Result{StatusCode: 500, FailureReason: webhook.ReasonHTTPStatus, Duration: time.Millisecond, Kept: kept}
		d.lanes.done(started, d.attempt(t.Context(), started))
		connected = kept
	}
}
