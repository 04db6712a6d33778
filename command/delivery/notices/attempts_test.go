package notices_test

import (
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/command/catalog"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/notices"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A destination fails at half of what disables it, rounded up, once until a success, also when each attempt is seen by
// a process that starts from saved state. An attempt that lost its race does not count.
func TestNoticesFailingOnceAStreak(t *testing.T) {
	t.Parallel()
	for after, want := range map[int][]int{1: {0, 5}, 2: {0, 5}, 5: {3, 7}, 6: {3, 7}, 7: {8}} {
		r := noticed(t)
		begin := func() *autodisable.Manager { return manager(r.Store, after, day) }
		var seen eventstore.Position
		var saved []eventstore.SavedRow
		see := func() (failing bool) {
			before, h := r.headOf(t), begin()
			for _, row := range saved {
				must.OK(t, h.Restore(row))
			}
			h.Begin(before)
			err := h.React(t.Context(), r.Events(seen, h.Traits().Filter))
			rows, rowsErr := h.Rows("streak", "notice_address", "notice_pace", "down")
			must.True(t, err == nil && rowsErr == nil, "%v %v", err, rowsErr)
			saved, seen = rows, before
			return slices.ContainsFunc(r.noticesAfter(t, before), func(kind string) bool {
				return kind == catalog.DestinationFailing || kind == catalog.DestinationFailing+" waits"
			})
		}
		var got []int
		reasons := []delivery.Failure{"timeout", "timeout", "dns", "http_status", "", "dns", "dns", "dns", "dns"}
		for i, reason := range reasons {
			renumbered := 0
			if i == 1 {
				renumbered = 1
			}
			if r.Answers(i, 500, reason, renumbered); see() {
				got = append(got, i)
			}
		}
		if seen, saved = eventstore.Start, nil; see() || !slices.Equal(got, want) {
			t.Errorf("disabled after %d: notices follow attempts %v, want %v, and none from a replay", after, got, want)
		}
	}
}

func (r rule) headOf(t *testing.T) eventstore.Position {
	t.Helper()
	head := must.Get(r.Store.Head(t.Context()))(t)
	return head
}

// A destination that was disabled automatically and enabled again has its notice when it fails again, before any
// success; attempts that end while it is disabled make none.
func TestNoticesFailingAfterEnabling(t *testing.T) {
	t.Parallel()
	r := noticed(t)
	failing := func(when string, want bool) {
		t.Helper()
		r.answersEvent(t, delivery.Outcome{FailureReason: delivery.FailureTimeout})
		_, got := r.dataAfter(t, r.reactTwice(t), hall)[catalog.DestinationFailing]
		assert.True(t, got == want, "%s: a notice is made: %t, want %t", when, got, want)
	}
	processtest.Given(r.Rule, destination.Aggregate, hook)(destination.AutoDisabled{})
	failing("disabled", false)
	processtest.Given(r.Rule, destination.Aggregate, hook)(destination.Enabled{})
	failing("enabled again", true)
}

// answersEvent records an event and an attempt of its delivery, and returns the ids of the two and of the attempt.
func (r rule) answersEvent(t *testing.T, o delivery.Outcome) (event, of, attempt uuid.UUID) {
	t.Helper()
	event, attempt = uuid.New(), uuid.New()
	of = dispatch.DeliveryID(event, hook)
	processtest.Given(r.Rule, publication.Aggregate, event)(publication.Published{
		Organization: alice,
		Type:         "news.item.added",
		Subject:      "item/7",
		Data:         []byte(`{}`),
	})
	status := delivery.StatusFailed
	if o.Succeeded() {
		status = delivery.StatusSucceeded
	}
	name, data, err := delivery.Events.Encode(delivery.Attempted{
		Organization: alice,
		Destination:  hook,
		Number:       1,
		Trigger:      delivery.Automatic,
		Outcome:      o,
		Status:       status,
	})
	metadata, metadataErr := json.Marshal(eventstore.Metadata{Organization: alice, CorrelationID: event, Actor: "test"})
	must.True(t, err == nil && metadataErr == nil, "%v %v", err, metadataErr)
	attempted := eventstore.Proposed{
		ID:       attempt,
		Type:     name,
		Data:     data,
		Metadata: metadata,
	}
	must.Get(r.Store.Append(t.Context(), delivery.Aggregate.Stream(of), eventstore.NoStream,
		[]eventstore.Proposed{attempted}))(t)
	return event, of, attempt
}

// dataAfter returns the data of the notices to an organization after a position, by type.
func (r rule) dataAfter(t *testing.T, before eventstore.Position, to uuid.UUID) map[string]notices.Data {
	t.Helper()
	found := map[string]notices.Data{}
	for _, recorded := range r.Events(before, eventstore.Categories("publication")) {
		event, err := publication.Events.Decode(&recorded)
		p, is := event.(publication.Published)
		must.True(t, err == nil && is, "%v %v", event, err)
		if p.Organization != to {
			continue
		}
		var data notices.Data
		var members map[string]any
		must.OK(t, errors.Join(json.Unmarshal(p.Data, &data), json.Unmarshal(p.Data, &members)))
		for _, notice := range catalog.Notices {
			got := slices.DeleteFunc(slices.Sorted(maps.Keys(members)), func(name string) bool {
				return slices.Contains([]string{"organizationId", "destinationId", "count", "message", "where"}, name)
			})
			if want := slices.Sorted(slices.Values(notice.Data)); notice.Type == p.Type && !slices.Equal(got, want) {
				t.Errorf("%s has %v, and %v are declared", p.Type, got, want)
			}
		}
		data.Message = ""
		found[p.Type] = data
	}
	return found
}

// Notices that follow from an attempt name the event, the last answer and the place to look.
func TestNoticesNameEventAndAnswer(t *testing.T) {
	t.Parallel()
	r := noticed(t)
	r.NoticesTo(destination.Operators, desk)
	last := delivery.Outcome{
		ResponseStatus: 503,
		FailureReason:  delivery.FailureStatus,
		ErrorMessage:   "the endpoint answered 503",
		ResponseBody:   []byte("sealed"),
	}
	r.answersEvent(t, last)
	before := r.reactTwice(t)
	event, of, _ := r.answersEvent(t, last)
	r.reactTwice(t) // records the disabling
	r.reactTwice(t) // and its notice
	want := notices.Data{
		Destination: hook,
		Count:       1,
		Delivery:    of,
		Event:       &notices.Event{event, "news.item.added", "item/7"},
		LastAnswer:  &notices.LastAnswer{503, delivery.FailureStatus, "Not a 2xx answer", "the endpoint answered 503"},
	}
	here := func(console string) notices.Place {
		return notices.Place{API: "/events" + console, Console: "/console" + console}
	}
	destinationPath, deliveryPath := "/destinations/"+hook.String(), "/deliveries/"+of.String()
	exhausted, disabled := want, want
	exhausted.Where, disabled.Where = here(deliveryPath), here(destinationPath)
	got := r.dataAfter(t, before, hall)
	assert.Same(t, got[catalog.DestinationAutoDisabled], disabled)
	assert.Same(t, got[catalog.DeliveryExhausted], exhausted)
	failing := got[catalog.DestinationFailing]
	assert.True(t, failing.Failures == 1 && failing.Event.Type != "" && failing.LastAnswer.Status == 503 &&
		failing.Where == here(destinationPath), "failing: %+v", failing)
	disabled.Organization = alice
	disabled.Where = notices.Place{Console: "/console/organizations/" + alice.String() + destinationPath}
	assert.Same(t, r.dataAfter(t, before, desk)[catalog.DestinationAutoDisabled], disabled)
	before = r.headOf(t)
	r.answersEvent(t, delivery.Outcome{ResponseStatus: 204})
	r.reactTwice(t)
	recovered := r.dataAfter(t, before, hall)[catalog.DestinationRecovered]
	assert.True(t, recovered.Event != nil && *recovered.LastAnswer == (notices.LastAnswer{Status: 204}),
		"recovered: %+v", recovered)
}

// A notice that an earlier version published before it was killed gets its delivery.
func TestNoticesOfEarlierVersionGoOn(t *testing.T) {
	t.Parallel()
	r := noticed(t)
	_, of, attempt := r.answersEvent(t, delivery.Outcome{FailureReason: delivery.FailureTimeout})
	id := uuid.NewSHA1(attempt, []byte(catalog.DeliveryExhausted))
	must.Get(publication.Aggregate.Execute(t.Context(), r.Store, id, publication.Publish{
		Published: publication.Published{
			Organization: hall,
			Type:         catalog.DeliveryExhausted,
			Source:       catalog.DestinationsPath + hook.String(),
			Subject:      hook.String(),
			Data:         []byte(`{"count":1,"message":"m","deliveryId":"` + of.String() + `"}`),
		},
	}, publication.Options{CommandID: eventstore.EventID(id, 0)}))(t)
	var scheduled []uuid.UUID
	for _, recorded := range r.Events(r.reactTwice(t), eventstore.Categories("dispatch")) {
		scheduled = append(scheduled, recorded.StreamID())
	}
	assert.True(t, slices.Contains(scheduled, id), "deliveries of %v, want one of %s", scheduled, id)
}

const day = 24 * time.Hour
