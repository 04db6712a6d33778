package console_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/command"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/health"
)

// TestPicturesOfMonth saves pictures of the pages with a month of history, for the documents, to the directory
// CARILLON_TEST_PICTURES, if set.
func TestPicturesOfMonth(t *testing.T) {
	t.Parallel()
	if os.Getenv("CARILLON_TEST_PICTURES") == "" {
		t.Skip("CARILLON_TEST_PICTURES names no directory for pictures")
	}
	s := &scene{world: openAlone(t), names: map[string]string{}}
	now := time.Now().UTC()
	by := command.Caller{Organization: s.org, Actor: "key:4f1c02aa", RequestID: uuid.New()}
	at := func(days float64) {
		s.Commands.Now = func() time.Time { return now.Add(-time.Duration(days * 24 * float64(time.Hour))) }
	}
	at(29.5)
	shop := s.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	at(28)
	app := s.subscribed(t, "Town app", receiver(t, 204, ""))
	at(27)
	letter := s.subscribed(t, "Old newsletter", receiver(t, 500, ""))
	change := func(days float64, do func() (eventstore.Position, error)) {
		at(days)
		position, err := do()
		if err != nil {
			t.Fatal(err)
		}
		s.Await(t, position, destinations.ReadModel.Name)
	}
	enabled := func(on bool) func() (eventstore.Position, error) {
		return func() (eventstore.Position, error) {
			out, err := s.Commands.ReviseDestination(t.Context(), by, command.ReviseDestination{ID: shop, Enabled: &on})
			return out.Position, err
		}
	}
	change(22, func() (eventstore.Position, error) {
		out, err := s.Commands.RotateSecret(t.Context(), by, command.RotateSecret{Destination: shop})
		return out.Position, err
	})
	change(16, enabled(false))
	change(15.2, enabled(true))
	change(0.4, func() (eventstore.Position, error) {
		out, err := s.Commands.RotateSecret(t.Context(), by, command.RotateSecret{Destination: shop})
		return out.Position, err
	})
	s.Commands.Now = time.Now
	s.history(t, now, map[uuid.UUID]float64{shop: 0.004, app: 0.02, letter: 0.35})
	s.fillFeed(t)
	event := s.publish(t, "concert/organ-at-noon")
	s.attempted(t, event, letter, 500, `{"error":"out of order","retry":false}`)
	s.attempted(t, event, shop, 204, `{"ok":true}`)
	s.names["works"], s.names["fails"], s.names["failed"] = shop.String(), letter.String(), dispatch.DeliveryID(event,
		letter).String()

	b := newTab(t, s.serve(t), s.signIn(t, s.key).cookie)
	for name, path := range map[string]string{
		"overview": "/console/?range=month", "destinations": "/console/destinations",
		"destination": "/console/destinations/{works}?range=week",
		"deliveries":  "/console/destinations/{fails}/deliveries", "delivery": "/console/deliveries/{failed}",
		"feed": "/console/feeds/{feed}",
	} {
		b.sized(t, 1200)
		b.open(t, s.at(t, path))
		b.pictures(t, "month-"+name)
	}
}

// history records the deliveries of a month to destinations with some failure rates.
func (s *scene) history(t *testing.T, now time.Time, failing map[uuid.UUID]float64) {
	t.Helper()
	chance := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // the same each time
	type sent struct {
		event  uuid.UUID
		at     time.Time
		to     uuid.UUID
		took   time.Duration
		failed bool
	}
	var all []sent
	for hours := 0.2; hours < 28.5*24; hours += 0.35 + chance.Float64() {
		moment := now.Add(-time.Duration(hours * float64(time.Hour))).Truncate(time.Microsecond)
		if hour := moment.Hour(); hour < 6 && chance.Float64() < 0.7 {
			continue
		}
		event := uuid.New()
		for to, share := range failing {
			slow := 1.0
			if chance.Float64() < 0.03 {
				slow = 12
			}
			all = append(all, sent{event, moment, to, time.Duration((20 + 60*chance.ExpFloat64()) * slow * float64(
				time.Millisecond)), chance.Float64() < share})
		}
	}
	var group errgroup.Group
	group.SetLimit(32)
	var last eventstore.Position
	positions := make([]eventstore.Position, len(all))
	metadata := eventstore.Metadata{Organization: s.org, Actor: "deliverer"}
	for i, d := range all {
		group.Go(func() error {
			_, err := dispatch.Aggregate.Execute(t.Context(), s.Store, d.event,
				dispatch.Schedule{DeliveriesScheduled: dispatch.DeliveriesScheduled{
					Publication: d.event,
					At:          d.at.Add(3 * time.Millisecond),
					Event: dispatch.Summary{
						Type:    "news.item.added",
						Source:  "/feeds/concerts",
						Subject: fmt.Sprintf("concert/%d", i),
						Time:    d.at,
					},
					Deliveries: []dispatch.Scheduled{{Destination: d.to, Organization: s.org, Subscriptions: []uuid.UUID{d.to}}},
				}}, dispatch.Options{Metadata: metadata})
			if err != nil {
				return err
			}
			attempt := delivery.RecordAttempt{
				Organization: s.org,
				Destination:  d.to,
				Number:       1,
				Trigger:      delivery.Automatic,
				At:           d.at.Add(5 * time.Millisecond),
				Outcome:      delivery.Outcome{ResponseStatus: 204, DurationMicros: d.took.Microseconds()},
			}
			if d.failed {
				attempt.Outcome = delivery.Outcome{
					ResponseStatus: 503,
					DurationMicros: d.took.Microseconds(),
					FailureReason:  "http_status",
					ErrorMessage:   "the endpoint answered 503",
				}
			}
			out, err := delivery.Aggregate.Execute(t.Context(), s.Store, dispatch.DeliveryID(d.event, d.to), attempt,
				delivery.Options{Metadata: metadata})
			positions[i] = out.Position
			return err
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	for _, p := range positions {
		if last.Before(p) {
			last = p
		}
	}
	s.Await(t, last, deliveries.ReadModel.Name, health.ReadModel.Name)
}
