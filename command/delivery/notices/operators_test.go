package notices_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/command/delivery/notices"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

var desk = uuid.MustParse("dddddddd-0000-4000-8000-00000000000d") // the destination of the operators

// operated is a destination, hook, of an organization without an address for notices, and the operators' address.
func operated(t *testing.T) rule {
	t.Helper()
	r := withHook(t)
	processtest.Given(r.Rule, destination.Aggregate, desk, destination.Event(destination.Created{
		Organization: destination.Operators,
		Settings:     destination.Settings{URL: "https://example.org", ExternalID: destination.NoticesExternalID},
	}))
	return r
}

// toDesk lets the health of destinations react twice to all events, and returns the notices to operators.
func (r rule) toDesk(t *testing.T) (made []string) {
	t.Helper()
	for _, recorded := range r.Events(r.reactTwice(t), eventstore.Categories("publication", "dispatch")) {
		metadata, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil {
			t.Fatal(err)
		}
		if metadata.Organization != destination.Operators {
			continue
		}
		if recorded.Category() == dispatch.Aggregate.Category {
			event, err := dispatch.Events.Decode(&recorded)
			if e, is := event.(dispatch.DeliveriesScheduled); err != nil || !is || len(e.Deliveries) != 1 ||
				e.Deliveries[0].Destination != desk || e.Deliveries[0].Organization != destination.Operators {
				t.Fatalf("%+v (%v), want a delivery to the operators alone", event, err)
			}
			continue
		}
		event, err := publication.Events.Decode(&recorded)
		p, is := event.(publication.Published)
		if err != nil || !is || p.Organization != desk {
			t.Fatalf("%+v (%v), want an event that no organization sees", event, err)
		}
		var data notices.Data
		if err := json.Unmarshal(p.Data, &data); err != nil {
			t.Fatal(err)
		}
		text := p.Type + " " + data.Reason
		if data.Organization != uuid.Nil {
			text += fmt.Sprint(map[uuid.UUID]string{alice: "alice", bob: "bob"}[data.Organization], " ", data.Count)
		}
		made = append(made, text)
	}
	return made
}

func (r rule) tellsDesk(t *testing.T, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, r.toDesk(t)); diff != "" {
		t.Errorf("notices to the operators (-want +got):\n%s", diff)
	}
}

// fails records the last attempt of a delivery to a destination.
func (r rule) fails(organization, to uuid.UUID) {
	processtest.Given(r.Rule, delivery.Aggregate, uuid.New(), delivery.Event(delivery.Attempted{
		Organization: organization,
		Destination:  to,
		Number:       1,
		Trigger:      delivery.Automatic,
		Outcome:      delivery.Outcome{FailureReason: "timeout", ResponseStatus: 410},
		Status:       delivery.StatusFailed,
	}))
}

// The operators get notices about the destinations of all organizations, with and without an address for notices, and
// about these addresses.
func TestOperatorsHearAllNotices(t *testing.T) {
	t.Parallel()
	r := operated(t)
	r.fails(alice, hook)
	r.tellsDesk(t, "delivery.exhausted alice 1", "destination.auto_disabled alice 1")
	processtest.Given(r.Rule, destination.Aggregate, hall, destination.Event(destination.Created{Organization: bob,
		Settings: destination.Settings{URL: "https://example.org", ExternalID: destination.NoticesExternalID}}))
	r.fails(bob, hall)
	r.tellsDesk(t, "delivery.exhausted bob 1", "destination.auto_disabled bob 1")
	r.fails(alice, hook)
	r.tellsDesk(t, "delivery.exhausted alice 1") // waits until the minute is over
	r.fails(alice, hook)
	r.tellsDesk(t, "delivery.exhausted alice 2")
}

// The operators' address gets nothing about itself, and is never disabled by its failures.
func TestOperatorsAddressIsSpared(t *testing.T) {
	t.Parallel()
	r := operated(t)
	for range 3 {
		r.fails(destination.Operators, desk)
	}
	r.tellsDesk(t)
	r.Then()
	processtest.Given(r.Rule, destination.Aggregate, desk, destination.Event(destination.Deleted{}))
	r.fails(alice, hook)
	r.tellsDesk(t)
}

// Operators get a notice about a source that needs them, and none about one that recovers by itself.
func TestOperatorsHearOfSources(t *testing.T) {
	t.Parallel()
	r := operated(t)
	for i, event := range []source.Event{
		source.Registered{Type: source.TypeInstagram, Handle: "hall", At: noon},
		source.CredentialsMissing{Number: 1, Message: "no token", At: noon},
		source.JavaScriptNeeded{Number: 2, Message: "scripts", At: noon},
		source.CollectionFailed{Number: 3, Reason: "timeout", At: noon},
		source.CollectionFailed{Number: 4, Reason: "robots", At: noon},
		source.CollectionCompleted{Number: 5, At: noon},
		source.Paused{Reason: "its owner objects", At: noon.Add(time.Hour)},
	} {
		processtest.Given(r.Rule, source.Aggregate, uuid.NewSHA1(sub, []byte{byte(i)}), event)
	}
	const kind = "source.needs_attention "
	r.tellsDesk(t, kind+"needs_credentials", kind+"needs_javascript", kind+"robots")
}
