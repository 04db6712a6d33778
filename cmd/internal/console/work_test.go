package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/console"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// done waits until work has ended, and returns its page.
func (b *browser) done(t *testing.T, begun page) page {
	t.Helper()
	if begun.status != http.StatusSeeOther || !strings.Contains(begun.location, "/work/") {
		t.Fatalf("%d to %q\n%s", begun.status, begun.location, begun.shown(""))
	}
	var shown page
	must.Eventually(t, "the work is done", func() bool {
		shown = b.get(t, begun.location)
		return strings.Contains(shown.body, "Done.")
	})
	return shown
}

// TestReplayMany: many deliveries are sent again at once: counted first, and each requested once.
func TestReplayMany(t *testing.T) {
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Hook", receiver(t, 500, ""))
	spare := w.destination(t, "Spare", receiver(t, 204, ""))
	var deliveries []string
	for i := range 5 {
		event := w.publish(t, fmt.Sprint(i))
		status := 500
		if i == 0 {
			status = 204
		}
		w.attempted(t, event, id, status, "")
		deliveries = append(deliveries, dispatch.DeliveryID(event, id).String())
	}
	waits := w.publish(t, "waits")
	b := w.signIn(t, w.key)
	path := "/console/destinations/" + id.String()
	b.get(t, path+"/replay?status=failed").expect(t, 200, "Send 4 again")
	b.get(t, path+"/replay").expect(t, 200, "Send 5 again")
	preset := regexp.MustCompile(`href="([^"]+)">the last hour<`).FindStringSubmatch(b.get(t,
		path+"/replay?status=failed&type=news.*").expect(t, 200, "the last hour").body)
	must.True(t, preset != nil, "there is no preset")
	b.get(t, html.UnescapeString(preset[1])).expect(t, 200, "Send 4 again", `value="news.*"`)
	b.get(t, path+"/replay?status=failed&type=event.*").expect(t, 200, "There is nothing to send.")
	b.get(t, path+"/replay?status=pending").expect(t, 400, "must be succeeded or failed")

	// To all destinations, with what waits for its retry at those that are enabled.
	w.attemptedAs(t, waits, id, 503, "later", firstOfMany)
	all := "/console/deliveries/replay"
	b.get(t, "/console/deliveries").expect(t, 200, "Send what failed", "?last=hour")
	b.get(t, all+"?last=hour&type=event.*,+news.*").expect(t, 200, "Send 5", "to 1 destination",
		"1 waits for its retry, 4 failed", `value="event.*, news.*"`)
	b.post(t, path+"/disable")
	b.get(t, all).expect(t, 200, "Send 4", "0 wait for their retry, 4 failed")
	b.post(t, path+"/enable")
	b.get(t, all+"?until=2020-01-01").expect(t, 200, "There is nothing to send.")
	b.get(t, all+"?type=x*y").expect(t, 400, "Type must be")
	finished := b.post(t, all, "type", "news.*")
	b.done(t, finished).expect(t, 200, "Sending to all destinations", "5 of 5")
	b.get(t, all).expect(t, 200, "There is nothing to send.")
	if types := w.EventTypes(t, "delivery-"+dispatch.DeliveryID(waits, id).String()); !slices.Contains(types,
		"delivery.retry-requested.v1") {
		t.Errorf("what waited: %v", types)
	}
	for i, id := range deliveries {
		types := strings.Join(w.EventTypes(t, "delivery-"+id), " ")
		assert.Equal(t, strings.Contains(types, "replay-requested"), i > 0, "delivery %d: %s", i, types)
	}
	// Pending ones are not requested again.
	b.done(t, b.post(t, path+"/replay", "status", "failed")).expect(t, 200, "4 of 4, of which 4 are on their way already")

	// Missed events: the spare destination has just been subscribed.
	w.subscribe(t, spare, "*")
	since := time.Now().UTC().Add(-time.Hour).Format("2006-01-02T15:04:05")
	missed := "/console/destinations/" + spare.String() + "/backfill"
	b.get(t, missed).expect(t, 200, "Count them")
	b.get(t, missed+"?since="+since).expect(t, 200, "6", "events that match its subscriptions")
	b.get(t, missed+"?since=2020-01-01").expect(t, 400, "at most 30 days")
	b.done(t, b.post(t, missed, "since", since)).expect(t, 200, "6 of 6")
	b.done(t, b.post(t, missed, "since", since)).expect(t, 200, "6 of 6, of which 6 had their delivery already")

	_, otherKey := w.Organization(t, "Library")
	other := w.signIn(t, otherKey)
	other.get(t, path+"/replay").expect(t, 404, "Not found")
	other.get(t, all).expect(t, 200, "There is nothing to send.")
	other.get(t, finished.location).expect(t, 404, "Not found")
	other.post(t, path+"/replay", "status", "failed").expect(t, 404, "Not found")
}

// TestEnable_offersMissedEvents: enabling a destination shows the number of missed events, and offers to send them.
func TestEnable_offersMissedEvents(t *testing.T) {
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Hook", receiver(t, 204, ""))
	w.publish(t, "before")
	b := w.signIn(t, w.key)
	path := "/console/destinations/" + id.String()
	b.get(t, path+"/disable").expect(t, 200, "Events that are published meanwhile get no deliveries")
	b.post(t, path+"/disable").leadsTo(t, path+"?done=disabled")
	b.get(t, path+"/enable").expect(t, 200, "1 pending delivery goes on by its schedule").lacks(t, "missed")
	w.publish(t, "first")
	w.publish(t, "second")
	b.get(t, path+"/enable").expect(t, 200, "2 events were missed", "Enable and send missed events")
	asked := b.post(t, path+"/enable", "then", "missed")
	must.True(t, asked.status == http.StatusSeeOther && strings.HasPrefix(asked.location, path+"/backfill?since="),
		"%d to %q", asked.status, asked.location)
	begin, window, _ := strings.Cut(asked.location, "?")
	b.get(t, asked.location).expect(t, 200, "events that match its subscriptions", "Send missed events")
	given := must.Get(url.ParseQuery(window))(t)
	b.done(t, b.post(t, begin, "since", given.Get("since"), "until", given.Get("until")))
	_, total, err := w.Queries.Deliveries(t.Context(), w.org, id, query.DeliveryFilter{Limit: 1}, time.Now())
	assert.True(t, err == nil && total == 3, "%d deliveries (%v), want those of all 3 events", total, err)
}

// TestWork_resumesAfterInterruption: work of a killed process resumes where it stopped, in one process.
func TestWork_resumesAfterInterruption(t *testing.T) {
	w := open(t)
	id := w.subscribed(t, "Hook", receiver(t, 500, ""))
	var first query.Delivery
	for i := range 3 {
		event := w.publish(t, fmt.Sprint(i))
		w.attempted(t, event, id, 500, "")
		if i == 0 {
			all, _, err := w.Queries.Deliveries(t.Context(), w.org, id, query.DeliveryFilter{Limit: 1}, time.Now())
			must.True(t, err == nil && len(all) == 1, "%v %v", all, err)
			first = all[0]
		}
	}
	works := adapters.ConsoleWorks{Pool: w.Pool}
	work, path := w.begun(t, id, func(of *console.Work) { of.AfterAt, of.AfterID = first.CreatedAt, first.ID })
	b := w.signIn(t, w.key)
	b.get(t, path).expect(t, 200, "1 of 3")
	w.later.Store(int64(time.Minute))
	b.post(t, path).expect(t, 503, "nothing was started")
	b.get(t, path).expect(t, 200, "It was interrupted", "Go on")
	w.later.Store(0)
	w.lives(t)
	must.Eventually(t, "it is in progress", func() bool { return b.post(t, path).status == http.StatusNotFound })
	w.later.Store(int64(time.Minute))
	b.done(t, b.post(t, path)).expect(t, 200, "3 of 3")
	assert.True(t, works.Advance(t.Context(), work, work.Beat.Add(time.Hour)) != nil,
		"who was given up on goes on beside who took over")
	types := strings.Join(w.EventTypes(t, "delivery-"+first.ID.String()), " ")
	assert.True(t, !strings.Contains(types, "replay-requested"), "what was done is done again: %s", types)
}
