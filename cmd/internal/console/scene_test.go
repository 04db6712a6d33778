package console_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	dispatching "carillon/command/delivery"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/health"
	"carillon/projections/subscriptions"
)

// scene is a world with something to look at.
type scene struct {
	*world

	names map[string]string // what {…} in an address of a page stands for
}

// newScene makes an organization with a destination that works, one that fails, and deliveries of each kind.
func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{world: open(t), names: map[string]string{}}
	works := s.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	fails := s.subscribed(t, "Old newsletter", receiver(t, 500, "no"))
	s.names["works"], s.names["fails"] = works.String(), fails.String()
	var event uuid.UUID
	for i := range 3 {
		event = s.publish(t, fmt.Sprintf("concert/%d", i))
		s.attempted(t, event, works, 204, `{"ok":true}`)
		s.attempted(t, event, fails, 500, "<h1>Out of order</h1>")
	}
	s.names["delivered"], s.names["failed"] = dispatch.DeliveryID(event, works).String(), dispatch.DeliveryID(event, fails).String()
	waiting := s.publish(t, "concert/4")
	s.names["waiting"], s.names["event"] = dispatch.DeliveryID(waiting, works).String(), event.String()
	return s
}

// lives runs live parts until the test ends.
func (w *world) lives(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		w.console.Run(ctx)
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
}

// at is an address with the names in it resolved. {fresh} is a new destination.
func (s *scene) at(t *testing.T, path string) string {
	t.Helper()
	if strings.Contains(path, "{fresh}") {
		path = strings.ReplaceAll(path, "{fresh}", s.destination(t, "Fresh", receiver(t, 204, "")).String())
	}
	for name, value := range s.names {
		path = strings.ReplaceAll(path, "{"+name+"}", value)
	}
	return path
}

// subscribed makes a destination that gets everything.
func (w *world) subscribed(t *testing.T, name, address string) uuid.UUID {
	t.Helper()
	id := w.destination(t, name, address)
	made, err := w.Commands.CreateSubscription(t.Context(), command.Caller{Organization: w.org, Actor: "key:test", RequestID: uuid.New()},
		command.CreateSubscription{Destination: id, Settings: subscription.Settings{EventTypes: []string{"*"}, ScopeKind: "all"}})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, made.Position, subscriptions.ReadModel.Name, dispatching.DispatcherName)
	return id
}

// publish publishes news, and waits until it is dispatched.
func (w *world) publish(t *testing.T, subject string) uuid.UUID {
	t.Helper()
	event, at, err := w.Commands.Publish(t.Context(), apitest.Operator, command.Publish{
		Type: "news.item.added", Source: "/feeds/concerts", Subject: subject, Organization: w.org,
		Data: []byte(`{"id":"7","title":"Concert in the park"}`),
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, at, dispatching.DispatcherName)
	return event
}

// attempted records an attempt as the deliverer does, and waits until it can be read.
func (w *world) attempted(t *testing.T, event, destination uuid.UUID, status int, body string) {
	t.Helper()
	sealed, err := w.Commands.Vault.Seal(t.Context(), destination, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	attempt := delivery.RecordAttempt{
		Organization: w.org, Destination: destination, Number: 1, Trigger: delivery.Automatic, At: time.Now().UTC().Truncate(time.Microsecond),
		Outcome: delivery.Outcome{ResponseStatus: status, ResponseBody: sealed, DurationMicros: 41_500},
	}
	if status >= 300 {
		attempt.Outcome.FailureReason, attempt.Outcome.ErrorMessage = "http_status", fmt.Sprintf("the endpoint answered %d", status)
	}
	out, err := delivery.Aggregate.Execute(t.Context(), w.Store, dispatch.DeliveryID(event, destination), attempt,
		delivery.Options{Metadata: eventstore.Metadata{Organization: w.org, Actor: "deliverer"}})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, out.Position, deliveries.ReadModel.Name, health.ReadModel.Name)
}
