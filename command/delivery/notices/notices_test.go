package notices_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/aggregates/subscription"
	"carillon/command/catalog"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/deliverytest"
	"carillon/command/delivery/notices"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon  = deliverytest.Noon
	alice = deliverytest.Alice
	bob   = deliverytest.Bob
	hook  = deliverytest.Hook
	sub   = deliverytest.Sub
	all   = deliverytest.All
)

var hall = uuid.MustParse("eeeeeeee-0000-4000-8000-00000000000e") // the destination for notices

// noticed is a destination, hook, of an organization that has named another for notices.
// rule is that of the process manager that makes notices.
type rule struct{ deliverytest.Town }

// manager makes the process manager, which disables after failures in a row.
func manager(store eventstore.Store, after int, streak time.Duration) *autodisable.Manager {
	policy := autodisable.Policy{After: after, MinStreak: streak}
	return autodisable.New(store, policy, slog.New(slog.DiscardHandler))
}

// withHook is a town with Alice's endpoint, which two failures disable.
func withHook(t *testing.T) rule {
	t.Helper()
	return rule{deliverytest.WithHook(t, func(store eventstore.Store) eventstore.ProcessManager {
		return manager(store, 2, 0)
	})}
}

func noticed(t *testing.T) rule {
	t.Helper()
	r := withHook(t)
	r.NoticesTo(alice, hall)
	processtest.Given(r.Rule, subscription.Aggregate, sub)(
		subscription.Created{Organization: alice, Destination: hook, Settings: all})
	return r
}

// notices lets the health of destinations react, and returns the notices that it made, each with its count, and "waits"
// if it is sent later, and "instead" if it supersedes another.
func (r rule) notices(t *testing.T) (kinds []string) {
	t.Helper()
	return r.noticesAfter(t, r.reactTwice(t))
}

// reactTwice lets the health of destinations react twice to all events, and returns the head of the log before.
func (r rule) reactTwice(t *testing.T) (before eventstore.Position) {
	t.Helper()
	before = r.headOf(t)
	for range 2 { // the second one sees what the first one did
		h := manager(r.Store, 2, 0)
		h.Begin(before)
		must.OK(t, h.React(t.Context(), r.Events(eventstore.Start, h.Traits().Filter)))
	}
	return before
}

func (r rule) noticesAfter(t *testing.T, before eventstore.Position) (kinds []string) {
	t.Helper()
	var data notices.Data
	var made eventstore.Recorded // the notice itself
	for _, recorded := range r.Events(before, eventstore.Categories("publication", "dispatch")) {
		if recorded.Category() == publication.Aggregate.Category {
			event, err := publication.Events.Decode(&recorded)
			p, is := event.(publication.Published)
			must.True(t, err == nil && is && p.Organization == hall && catalog.IsNotice(p.Type),
				"%+v (%v), want a notice for the destination alone", event, err)
			data = notices.Data{}
			must.OK(t, json.Unmarshal(p.Data, &data))
			r.isWhole(t, &recorded, p, data)
			made = recorded
			continue
		}
		event, err := dispatch.Events.Decode(&recorded)
		e, is := event.(dispatch.DeliveriesScheduled)
		must.True(t, err == nil && is && len(e.Deliveries) == 1 && e.Deliveries[0].Destination == hall &&
			e.Deliveries[0].Organization == alice && data.Destination == hook && !e.At.IsZero() &&
			e.Publication == made.StreamID() && bytes.Equal(recorded.Metadata, made.Metadata),
			"%+v (%v), want a delivery to the address about the other", event, err)
		text := e.Event.Type
		if data.Count > 1 {
			text += " " + string(rune('0'+data.Count))
		}
		if !e.Deliveries[0].NotBefore.IsZero() {
			text += " waits"
		}
		if e.Deliveries[0].Supersedes != uuid.Nil {
			text += " instead"
		}
		kinds = append(kinds, text)
	}
	return kinds
}

// isWhole expects that a notice has its texts, and names what led to it.
func (r rule) isWhole(t *testing.T, recorded *eventstore.Recorded, p publication.Published, data notices.Data) {
	t.Helper()
	metadata, err := eventstore.ParseMetadata(recorded.Metadata)
	all := r.Events(eventstore.Start, eventstore.Filter{})
	i := slices.IndexFunc(all, func(e eventstore.Recorded) bool { return e.ID == metadata.CausationID })
	assert.True(t, err == nil && i >= 0 && p.Time.Equal(all[i].RecordedAt()) && metadata.Organization == alice &&
		metadata.CorrelationID == recorded.StreamID() && metadata.Actor == autodisable.Name && p.Subject == hook.String() &&
		strings.HasPrefix(p.Source, "/") && data.Message != "", "%+v %+v, %+v (%v)", p, data, metadata, err)
	if p.Type == catalog.SecretExpiring && (len(data.Secrets) != 1 || data.ExpiresAt.IsZero()) ||
		p.Type == catalog.SubscriptionDeactivated && data.Subscription != sub {
		t.Errorf("%s: %+v", p.Type, data)
	}
}

func (r rule) expects(t *testing.T, want ...string) {
	t.Helper()
	assert.Same(t, r.notices(t), want)
	again := r.notices(t)
	assert.True(t, len(again) == 0, "another time it made %v", again)
}

// Of one kind about one destination the first notice is sent at once, and the others of its minute are one that counts
// all.
func TestNoticesOncePerMinute(t *testing.T) {
	t.Parallel()
	r := noticed(t)
	r.Answers(0, 500, "http_status", 0)
	r.expects(t, "delivery.exhausted", "destination.failing")
	r.Answers(1, 500, "http_status", 0)
	r.Answers(2, 500, "http_status", 0)
	r.Answers(3, 500, "http_status", 0)
	r.expects(t, "delivery.exhausted waits", "delivery.exhausted 2 waits instead",
		"delivery.exhausted 3 waits instead", "destination.auto_disabled")
}

// Each kind of notice follows from its event, and a success after an automatic disabling is one.
func TestNoticesOfEachKind(t *testing.T) {
	t.Parallel()
	r := noticed(t)
	by := destination.Options{Metadata: eventstore.Metadata{Organization: alice}}
	rotate := destination.Rotate{
		Organization: alice,
		SecretID:     uuid.New(),
		Secret:       []byte("s"),
		At:           noon,
	}
	for range 2 { // the first one ends none
		must.Get(destination.Aggregate.Execute(t.Context(), r.Store, hook, rotate, by))(t)
		rotate.SecretID = uuid.New()
	}
	r.expects(t, "secret.expiring")
	processtest.Given(r.Rule, subscription.Aggregate, sub)(subscription.Deactivated{At: noon},
		subscription.Activated{At: noon}, subscription.Deactivated{Reason: "the feed was deleted", At: noon})
	r.expects(t, "subscription.deactivated")
	r.Answers(0, 410, "gone", 0)
	r.expects(t, "delivery.exhausted", "destination.auto_disabled")
	processtest.Given(r.Rule, destination.Aggregate, hook)(destination.Enabled{})
	for range 2 {
		processtest.Given(r.Rule, delivery.Aggregate, uuid.New())(delivery.Attempted{
			Organization: alice,
			Destination:  hook,
			Number:       1,
			Trigger:      delivery.Automatic,
			Status:       delivery.StatusSucceeded,
		})
	}
	r.expects(t, "destination.recovered")
}

// The address for notices gets nothing about itself, nothing while it is disabled, and nothing of others.
func TestNoticesSpareTheirAddress(t *testing.T) {
	t.Parallel()
	r := noticed(t)
	r.fails(alice, hall, 0)
	r.fails(bob, uuid.New(), 0)
	r.expects(t)
	processtest.Given(r.Rule, destination.Aggregate, hall)(destination.Disabled{})
	r.fails(alice, hook, 0)
	r.expects(t)
	processtest.Given(r.Rule, destination.Aggregate, hall)(destination.Enabled{})
	r.fails(alice, hook, 0)
	r.expects(t, catalog.DeliveryExhausted, catalog.DestinationAutoDisabled)
	processtest.Given(r.Rule, destination.Aggregate, hall)(destination.Deleted{})
	r.fails(alice, hook, 0)
	r.expects(t, []string(nil)...)
}

var desk = uuid.MustParse("dddddddd-0000-4000-8000-00000000000d") // the destination of the operators

// operated is a destination, hook, of an organization without an address for notices, and the operators' address.
func operated(t *testing.T) rule {
	t.Helper()
	r := withHook(t)
	r.NoticesTo(destination.Operators, desk)
	return r
}

// toDesk lets the health of destinations react twice to all events, and returns the notices to operators.
func (r rule) toDesk(t *testing.T) (made []string) {
	t.Helper()
	for _, recorded := range r.Events(r.reactTwice(t), eventstore.Categories("publication", "dispatch")) {
		metadata := must.Get(eventstore.ParseMetadata(recorded.Metadata))(t)
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
		must.True(t, err == nil && is && p.Organization == desk,
			"%+v (%v), want an event that no organization sees", event, err)
		var data notices.Data
		must.OK(t, json.Unmarshal(p.Data, &data))
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
	assert.Same(t, r.toDesk(t), want)
}

// fails records the last attempt of a delivery to a destination.
func (r rule) fails(organization, to uuid.UUID, status int) {
	processtest.Given(r.Rule, delivery.Aggregate, uuid.New())(delivery.Attempted{
		Organization: organization,
		Destination:  to,
		Number:       1,
		Trigger:      delivery.Automatic,
		Outcome:      delivery.Outcome{FailureReason: "timeout", ResponseStatus: status},
		Status:       delivery.StatusFailed,
	})
}

// The operators get notices about the destinations of all organizations, with and without an address for notices, and
// about these addresses.
func TestOperatorsHearAllNotices(t *testing.T) {
	t.Parallel()
	r := operated(t)
	r.fails(alice, hook, 410)
	r.tellsDesk(t, "delivery.exhausted alice 1", "destination.auto_disabled alice 1")
	r.NoticesTo(bob, hall)
	r.fails(bob, hall, 410)
	r.tellsDesk(t, "delivery.exhausted bob 1", "destination.auto_disabled bob 1")
	r.fails(alice, hook, 410)
	r.tellsDesk(t, "delivery.exhausted alice 1") // waits until the minute is over
	r.fails(alice, hook, 410)
	r.tellsDesk(t, "delivery.exhausted alice 2")
}

// The operators' address gets nothing about itself, and is never disabled by its failures.
func TestOperatorsAddressIsSpared(t *testing.T) {
	t.Parallel()
	r := operated(t)
	for range 3 {
		r.fails(destination.Operators, desk, 410)
	}
	r.tellsDesk(t)
	r.Then()
	processtest.Given(r.Rule, destination.Aggregate, desk)(destination.Deleted{})
	r.fails(alice, hook, 410)
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
		processtest.Given(r.Rule, source.Aggregate, uuid.NewSHA1(sub, []byte{byte(i)}))(event)
	}
	const kind = "source.needs_attention "
	r.tellsDesk(t, kind+"needs_credentials", kind+"needs_javascript", kind+"robots")
}
