package httpapi_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	feedaggregate "carillon/aggregates/feed"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/health"
	"carillon/query"
)

func (s *server) detail(t *testing.T, id string) httpapi.DeliveryDetail {
	t.Helper()
	return into[httpapi.DeliveryDetail](t, 200, s.get(t, "/events/deliveries/"+id))
}

func TestDeliveryFromPendingToSuccess(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	id := s.delivery(t, destination.ID)
	d := s.detail(t, id)
	assert.True(t, d.Status == "pending" && d.AttemptCount == 0 && d.LastAttempt == nil && len(d.Attempts) == 0 &&
		d.NextAttemptAt != nil && d.CompletedAt == nil, "fresh: %+v", d)
	assert.True(t, string(d.Event.Data) == `{"id":"7","title":"Storm"}` && *d.Event.Subject == "storm" &&
		d.Event.FeedID == nil && d.Event.ID == d.EventID, "event = %+v", d.Event)
	s.happens(t, id, s.attempt(t, destination.ID, 1, 503, "busy <b>now</b>"))
	// Two drivers send it at once: both began under the number 2.
	s.happens(t, id, s.attempt(t, destination.ID, 2, 500, ""))
	s.happens(t, id, s.attempt(t, destination.ID, 2, 204, ""))
	d = s.detail(t, id)
	assert.True(t, d.Status == "succeeded" && d.AttemptCount == 3 && d.NextAttemptAt == nil && d.CompletedAt != nil &&
		d.LastAttempt.Number == 3, "after a success: %+v", d)
	for i, want := range []struct {
		status     int
		body       string
		renumbered int
		failed     bool
	}{{503, "busy <b>now</b>", 0, true}, {500, "", 0, true}, {204, "", 2, false}} {
		a := d.Attempts[i]
		assert.True(t, a.Number == i+1 && *a.ResponseStatus == want.status && *a.ResponseBody == want.body &&
			query.Of(a.RenumberedFrom) == want.renumbered && (a.FailureReason != nil) == want.failed &&
			a.Trigger == "automatic" && (a.ResponseHeaders == "server: nginx\nx-request-id: f00d\n") == want.failed,
			"attempt %d = %+v, want %+v", i+1, a, want)
	}
	assert.True(t, !strings.Contains(s.logged(t), "<b>now"), "the log shows what an endpoint answered")
}

// eventPath is the path of a delivery's event.
func (s *server) eventPath(t *testing.T, delivery string) string {
	t.Helper()
	return "/events/events/" + s.detail(t, delivery).EventID.String()
}

// Both lists of deliveries, those to one destination and those to all, take the same filters.
func TestDeliveriesAreListedAndFiltered(t *testing.T) {
	s := serve(t)
	crm, billing := s.subscribed(t, "crm"), s.subscribed(t, "billing")
	feed := s.NewsFeed(t, s.org, "City")
	events := []uuid.UUID{
		s.publish(t, command.Publish{}),
		s.publish(t, command.Publish{Type: "factcheck.status.changed", Data: factcheck}),
		s.publish(t, command.Publish{FeedType: "news", FeedID: feed}),
	}
	s.shown(t, events, crm.ID)
	s.shown(t, events, billing.ID)
	ids := func(to destinationView, numbers ...int) (ids []string) {
		for _, i := range numbers {
			ids = append(ids, dispatch.DeliveryID(events[i], uuid.MustParse(to.ID)).String())
		}
		return ids
	}
	of := ids(crm, 0, 1, 2)
	s.happens(t, of[0], s.attempt(t, crm.ID, 1, 204, ""))
	s.happens(t, of[1], s.attempt(t, crm.ID, 1, 500, ""))
	s.happens(t, ids(billing, 1)[0], delivery.Discard{Reason: "no subscription matches", At: time.Now().UTC()})
	at := s.detail(t, of[1]).CreatedAt.UTC().Format("2006-01-02T15:04:05.999999Z")
	type wanted struct{ crm, billing []int } // the newest first
	all := wanted{[]int{2, 1, 0}, []int{2, 1, 0}}
	for filter, want := range map[string]wanted{
		"":                                               all,
		"&status=succeeded":                              {crm: []int{0}},
		"&status=pending":                                {[]int{2, 1}, []int{2, 0}},
		"&status=discarded":                              {billing: []int{1}},
		"&status=superseded":                             {},
		"&type=*":                                        all,
		"&type=news.*":                                   {[]int{2, 0}, []int{2, 0}},
		"&type=news.*&status=succeeded":                  {crm: []int{0}},
		"&type=no.such.type":                             {},
		"&type=no.such.type,factcheck.*":                 {[]int{1}, []int{1}},
		"&feedId=" + feed.String():                       {[]int{2}, []int{2}},
		"&feedId=" + uuid.Nil.String():                   {},
		"&since=" + at:                                   {[]int{2, 1}, []int{2, 1}},
		"&until=" + at:                                   {[]int{1, 0}, []int{1, 0}},
		"&since=" + at + "&until=" + at:                  {[]int{1}, []int{1}},
		"&since=0001-01-01T00:00:00Z":                    all,
		"&until=0001-01-01T00:00:00Z":                    {},
		"&until=9999-12-31T23:59:59Z":                    all,
		"&destination=crm&type=news.*":                   {crm: []int{2, 0}},
		"&destination=" + billing.ID:                     {billing: []int{2, 1, 0}},
		"&eventId=" + events[1].String():                 {[]int{1}, []int{1}},
		"&destination=crm&eventId=" + events[0].String(): {crm: []int{0}},
	} {
		one, two := ids(crm, want.crm...), ids(billing, want.billing...)
		limit := "2"
		if strings.Contains(filter, "until=") { // which is also what leads to the next page
			limit = "100"
		}
		got := s.walk(t, "/events/deliveries?limit="+limit+filter, func() {})
		want := slices.Concat(one, two)
		slices.Sort(got)
		slices.Sort(want)
		assert.Slices(t, got, want, "%s", filter)
		if strings.Contains(filter, "destination=") || strings.Contains(filter, "eventId=") {
			continue
		}
		s.lists(t, "?limit=100"+filter, len(one), one)
	}
	for page, want := range map[string][]string{
		"?limit=2":          {of[2], of[1]},
		"?limit=2&offset=2": {of[0]},
		"?offset=3":         nil,
	} {
		s.lists(t, page, 3, want)
	}
}

// lists expects a page of the deliveries to crm.
func (s *server) lists(t *testing.T, query string, total int, want []string) {
	t.Helper()
	page := into[page[httpapi.DeliveryDetail]](t, 200, s.get(t, destinationsPath+"/crm/deliveries"+query))
	var got []string
	for _, item := range page.Items {
		got = append(got, item.ID.String())
		assert.True(t, item.Attempts == nil && item.Event.Data == nil, "%s: a row is as the detail: %+v", query, item)
	}
	assert.Slices(t, got, want, "%s", query)
	assert.Equal(t, page.Total, total, "%s: total", query)
}

var factcheck = []byte(`{"id":"9","claim":"The bridge is closed","status":"completed"}`)

func TestReplayAndItsRefusals(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	replay := func(id string) response {
		return s.post(t, "/events/deliveries/"+id+"/replay", "")
	}
	arrives := func(id string) { s.happens(t, id, s.attempt(t, destination.ID, 1, 204, "")) }
	pending := s.delivery(t, destination.ID)
	replay(pending).refused(t, 409, "ALREADY_EXISTS", "the delivery waits, is retried")
	arrives(pending)
	run := into[map[string]string](t, 202, replay(pending))
	assert.True(t, run["deliveryId"] == pending && run["workflowId"] != pending, "replay = %v", run)
	if got := s.EventTypes(t, "delivery-"+pending); got[len(got)-1] != "delivery.replay-requested.v1" {
		t.Errorf("events = %v", got)
	}
	replay(pending).refused(t, 409, "ALREADY_EXISTS", "another replay")
	if d := s.detail(t, pending); d.Status != "succeeded" || d.NextAttemptAt != nil || d.CompletedAt == nil {
		t.Errorf("while its replay waits: %s, next attempt %v, completed %v", d.Status, d.NextAttemptAt, d.CompletedAt)
	}
	again := s.attempt(t, destination.ID, 2, 500, "")
	again.Trigger = delivery.ManualReplay
	s.happens(t, pending, again)
	if d := s.detail(t, pending); d.Status != "succeeded" || d.Attempts[1].Trigger != "manual_replay" {
		t.Errorf("after the replay: %+v", d)
	}
	second := into[map[string]string](t, 202, replay(pending))
	assert.True(t, second["workflowId"] != run["workflowId"], "two replays have one workflow id")

	const unsubscribed = "the last subscription that asked for it was deleted"
	for why, end := range map[string]delivery.Command{
		"superseded": delivery.Supersede{By: uuid.New(), At: time.Now().UTC()},
		unsubscribed: delivery.Discard{Reason: unsubscribed, At: time.Now().UTC()},
	} {
		ended := s.delivery(t, destination.ID)
		s.happens(t, ended, end)
		replay(ended).refused(t, 409, "ALREADY_EXISTS", why)
	}

	other, _ := s.Organization(t, "Library")
	feed := s.NewsFeed(t, other, "City")
	s.Share(t, "news", feed, s.org)
	lost := s.published(t, destination.ID, command.Publish{FeedType: "news", FeedID: feed})
	arrives(lost)
	unshare := command.UnshareFeed{FeedType: "news", FeedID: feed, Organization: s.org}
	must.Get(s.Commands.UnshareFeed(t.Context(), apitest.Operator, unshare))(t)
	replay(lost).refused(t, 409, "ALREADY_EXISTS", "no longer has access to the feed")
	s.endFeed(t, feed)
	replay(lost).refused(t, 409, "ALREADY_EXISTS", "feed of its event was deleted")
	replay(uuid.NewString()).refused(t, 404, "NOT_FOUND", "delivery not found")
}

// endFeed records that a feed was deleted.
func (s *server) endFeed(t *testing.T, feed uuid.UUID) {
	t.Helper()
	must.Get(feedaggregate.Aggregate.Execute(t.Context(), s.Store, feed, feedaggregate.End{At: time.Now().UTC()},
		feedaggregate.Options{}))(t)
}

type metricsBody struct {
	From      time.Time   `json:"from"`
	To        time.Time   `json:"to"`
	Total     figuresBody `json:"total"`
	Intervals []struct {
		From     time.Time `json:"from"`
		Attempts int       `json:"attempts"`
	} `json:"intervals"`
}

type figuresBody struct {
	Attempts    int      `json:"attempts"`
	Succeeded   int      `json:"succeeded"`
	Failed      int      `json:"failed"`
	SuccessRate *float64 `json:"successRate"`
	P50         *float64 `json:"p50Ms"`
}

// TestMetrics_countsAttempts: given two attempts of one destination and one of another, when metrics are asked for,
// then those of both are counted, or of the one that is named, or with the type or reason that is.
func TestMetrics_countsAttempts(t *testing.T) {
	s := serve(t)
	crm, erp := s.subscribed(t, "crm"), s.subscribed(t, "erp")
	for to, statuses := range map[string][]int{crm.ID: {500, 204}, erp.ID: {204}} {
		id := s.delivery(t, to)
		for i, status := range statuses {
			s.happens(t, id, s.attempt(t, to, i+1, status, ""))
		}
	}
	s.Newest(t, health.ReadModel)
	hour := time.Now().UTC().Truncate(time.Hour)
	lately := "?from=" + hour.Add(-2*time.Hour).Format(time.RFC3339) + "&to=" + hour.Add(time.Hour).Format(time.RFC3339)
	for query, want := range map[string]struct{ intervals, attempts, succeeded int }{
		"":                                   {24, 3, 2},
		"?interval=5m":                       {24, 3, 2},
		"?destination=crm":                   {24, 2, 1},
		"?interval=1d&destination=" + erp.ID: {24, 1, 1},
		lately:                               {3, 3, 2},
		"?type=news.*":                       {24, 3, 2},
		"?type=event.*":                      {24, 0, 0},
		"?reason=http_status":                {24, 1, 0},
		"?to=2026-01-02T00:00:00Z&from=2026-01-01T00:00:00Z&interval=1d": {1, 0, 0},
	} {
		got := into[metricsBody](t, 200, s.get(t, "/events/metrics"+query))
		last := got.Intervals[len(got.Intervals)-1]
		assert.True(t, len(got.Intervals) == want.intervals && got.Total.Attempts == want.attempts &&
			got.Total.Succeeded == want.succeeded && got.Total.Failed == want.attempts-want.succeeded &&
			(got.Total.P50 != nil) == (want.attempts > 0) && (got.Total.SuccessRate != nil) == (want.attempts > 0) &&
			got.Intervals[0].From.Equal(got.From) && last.From.Before(got.To) && got.Intervals[0].Attempts == 0,
			"%q: %+v", query, got)
	}
	_, key := s.Organization(t, "other")
	other := s.as(key)
	foreign := into[metricsBody](t, 200, other.get(t, "/events/metrics"))
	assert.Equal(t, foreign.Total.Attempts, 0, "another organization sees %+v", foreign.Total)
	other.get(t, "/events/metrics?destination="+crm.ID).refused(t, 404, "NOT_FOUND", "destination")
}
