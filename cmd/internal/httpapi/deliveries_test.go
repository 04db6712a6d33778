package httpapi_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	feedaggregate "carillon/aggregates/feed"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/health"
)

type attemptView struct {
	AttemptNumber   int       `json:"attemptNumber"`
	RenumberedFrom  *int      `json:"renumberedFrom"`
	Trigger         string    `json:"trigger"`
	ResponseStatus  *int      `json:"responseStatus"`
	ResponseBody    *string   `json:"responseBody"`
	ResponseHeaders string    `json:"responseHeaders"`
	ErrorMessage    *string   `json:"errorMessage"`
	FailureReason   *string   `json:"failureReason"`
	AttemptedAt     time.Time `json:"attemptedAt"`
}

type deliveryView struct {
	ID            string     `json:"id"`
	EventID       string     `json:"eventId"`
	Status        string     `json:"status"`
	AttemptCount  int        `json:"attemptCount"`
	NextAttemptAt *time.Time `json:"nextAttemptAt"`
	CreatedAt     time.Time  `json:"createdAt"`
	CompletedAt   *time.Time `json:"completedAt"`
	Event         struct {
		ID       string         `json:"id"`
		Type     string         `json:"type"`
		Source   string         `json:"source"`
		Subject  *string        `json:"subject"`
		FeedType *string        `json:"feedType"`
		FeedID   *string        `json:"feedId"`
		Data     map[string]any `json:"data"`
	} `json:"event"`
	LastAttempt *attemptView  `json:"lastAttempt"`
	Attempts    []attemptView `json:"attempts"`
}

func (s *server) detail(t *testing.T, id string) (d deliveryView) {
	t.Helper()
	s.get(t, "/events/deliveries/"+id).into(t, 200, &d)
	return d
}

func TestDeliveryFromPendingToSuccess(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	id := s.delivery(t, destination.ID)
	d := s.detail(t, id)
	assert.True(t, d.Status == "pending" && d.AttemptCount == 0 && d.LastAttempt == nil && len(d.Attempts) == 0 &&
		d.NextAttemptAt != nil && d.CompletedAt == nil, "fresh: %+v", d)
	if diff := cmp.Diff(map[string]any{"id": "7", "title": "Storm"}, d.Event.Data); diff != "" ||
		*d.Event.Subject != "storm" || d.Event.FeedID != nil || d.Event.ID != d.EventID {
		t.Errorf("event = %+v\n%s", d.Event, diff)
	}
	first := s.attempt(t, destination.ID, 1, 503, "busy <b>now</b>")
	s.happens(t, id, first)
	waiting := s.detail(t, id)
	assert.True(t, waiting.Status == "pending" && waiting.AttemptCount == 1 && waiting.NextAttemptAt != nil &&
		waiting.NextAttemptAt.After(*d.NextAttemptAt), "after a failure: %+v, want it pending and due later", waiting)
	// Two drivers send it at once: both began under the number 2.
	s.happens(t, id, s.attempt(t, destination.ID, 2, 500, ""))
	s.happens(t, id, s.attempt(t, destination.ID, 2, 204, ""))
	d = s.detail(t, id)
	assert.True(t, d.Status == "succeeded" && d.AttemptCount == 3 && d.NextAttemptAt == nil && d.CompletedAt != nil,
		"after a success: %+v", d)
	last := *d.LastAttempt
	assert.True(t, last.AttemptNumber == 3 && last.RenumberedFrom != nil && *last.RenumberedFrom == 2 &&
		last.FailureReason == nil && *last.ResponseStatus == 204, "last attempt = %+v", last)
	for i, want := range []struct {
		status     int
		body       string
		renumbered bool
		failed     bool
	}{{503, "busy <b>now</b>", false, true}, {500, "", false, true}, {204, "", true, false}} {
		a := d.Attempts[i]
		assert.True(t, a.AttemptNumber == i+1 && *a.ResponseStatus == want.status && a.ResponseBody != nil &&
			*a.ResponseBody == want.body && (a.RenumberedFrom != nil) == want.renumbered &&
			(a.FailureReason != nil) == want.failed && a.Trigger == "automatic" &&
			(a.ResponseHeaders == "server: nginx\n") == want.failed, "attempt %d = %+v, want %+v", i+1, a, want)
	}
	assert.True(t, !strings.Contains(s.logged(t), "<b>now"), "the log shows what an endpoint answered")
}

func TestDeliveriesAreListedAndFiltered(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	feed := s.feed(t, s.org)
	ids := []string{
		s.delivery(t, destination.ID),
		s.published(t, destination.ID, command.Publish{Type: "factcheck.status.changed", Data: factcheck}),
		s.published(t, destination.ID, command.Publish{FeedType: "news", FeedID: feed}),
	}
	created := make([]time.Time, len(ids))
	for i, id := range ids {
		created[i] = s.detail(t, id).CreatedAt
	}
	s.happens(t, ids[0], s.attempt(t, destination.ID, 1, 204, ""))
	s.happens(t, ids[1], s.attempt(t, destination.ID, 1, 500, ""))
	s.happens(t, ids[2], delivery.Discard{Reason: "no subscription matches", At: time.Now().UTC()})
	at := func(i int) string { return created[i].UTC().Format("2006-01-02T15:04:05.999999Z") }
	for query, want := range map[string][]int{
		"": {2, 1, 0}, "?limit=2": {2, 1}, "?limit=2&offset=2": {0}, "?offset=3": {},
		"?status=succeeded": {0}, "?status=pending": {1}, "?status=discarded": {2}, "?status=failed": {},
		"?status=delivering": {}, "?status=superseded": {},
		"?type=*": {2, 1, 0}, "?type=news.*": {2, 0}, "?type=news.item.added": {2, 0}, "?type=factcheck.*": {1},
		"?type=research.*": {}, "?type=no.such.type": {}, "?type=no.such.type,factcheck.*": {1},
		"?feedId=" + feed.String(): {2}, "?feedId=" + uuid.NewString(): {}, "?feedId=" + uuid.Nil.String(): {},
		"?type=news.*&status=succeeded": {0},
		"?since=" + at(1):               {2, 1}, "?until=" + at(1): {1, 0}, "?since=" + at(1) + "&until=" + at(1): {1},
		"?since=0001-01-01T00:00:00Z": {2, 1, 0}, "?until=0001-01-01T00:00:00Z": {}, "?until=9999-12-31T23:59:59Z": {2, 1, 0},
	} {
		page := into[page[deliveryView]](t, 200, s.get(t, destinationsPath+"/crm/deliveries"+query))
		got, wanted := make([]string, 0, 3), make([]string, 0, 3)
		for _, item := range page.Items {
			got = append(got, item.ID)
			if item.Attempts != nil || item.Event.Data != nil ||
				item.LastAttempt != nil && item.LastAttempt.ResponseBody != nil {
				t.Errorf("%s: a row shows what only the detail has", query)
			}
		}
		for _, i := range want {
			wanted = append(wanted, ids[i])
		}
		assert.Slices(t, got, wanted, "%s", query)
		if !strings.Contains(query, "limit") && !strings.Contains(query, "offset") && page.Total != len(want) {
			t.Errorf("%s: total %d, want %d", query, page.Total, len(want))
		}
	}
}

var factcheck = []byte(`{"id":"9","claim":"The bridge is closed","status":"completed"}`)

// feed registers a feed of news that an organization owns.
func (s *server) feed(t *testing.T, owner uuid.UUID) uuid.UUID {
	t.Helper()
	registered := must.Get(s.Commands.RegisterFeed(t.Context(), apitest.Operator, command.RegisterFeed{
		FeedType:     "news",
		Organization: owner,
		Name:         "City",
	}))(t)
	s.Await(t, registered.Position, feeds.ReadModel.Name, dispatching.Name)
	return registered.ID
}

func TestReplayAndItsRefusals(t *testing.T) {
	s := serve(t)
	destination := s.subscribed(t, "crm")
	replay := func(id string) response {
		return s.post(t, "/events/deliveries/"+id+"/replay", "")
	}
	pending := s.delivery(t, destination.ID)
	replay(pending).refused(t, 409, "ALREADY_EXISTS", "the delivery waits, is retried")

	s.happens(t, pending, s.attempt(t, destination.ID, 1, 204, ""))
	type view struct {
		DeliveryID string `json:"deliveryId"`
		WorkflowID string `json:"workflowId"`
	}
	run := into[view](t, 202, replay(pending))
	assert.True(t, run.DeliveryID == pending && run.WorkflowID != pending && run.WorkflowID != "", "replay = %+v", run)
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
	second := into[view](t, 202, replay(pending))
	assert.True(t, second.WorkflowID != run.WorkflowID, "two replays have one workflow id")

	superseded := s.delivery(t, destination.ID)
	s.happens(t, superseded, delivery.Supersede{By: uuid.New(), At: time.Now().UTC()})
	replay(superseded).refused(t, 409, "ALREADY_EXISTS", "superseded")
	discarded := s.delivery(t, destination.ID)
	s.happens(t, discarded, delivery.Discard{
		Reason: "the last subscription that asked for it was deleted",
		At:     time.Now().UTC(),
	})
	replay(discarded).refused(t, 409, "ALREADY_EXISTS", "the last subscription that asked for it was deleted")

	other, _ := s.Organization(t, "Library")
	feed := s.feed(t, other)
	share := command.ShareFeed{FeedType: "news", FeedID: feed, Organization: s.org}
	shared := must.Get(s.Commands.ShareFeed(t.Context(), apitest.Operator, share))(t)
	s.Await(t, shared.Position, feeds.ReadModel.Name, dispatching.Name)
	lost := s.published(t, destination.ID, command.Publish{FeedType: "news", FeedID: feed})
	s.happens(t, lost, s.attempt(t, destination.ID, 1, 204, ""))
	must.Get(s.Commands.UnshareFeed(t.Context(), apitest.Operator, command.UnshareFeed(share)))(t)
	replay(lost).refused(t, 409, "ALREADY_EXISTS", "no longer has access to the feed")
	must.Get(feedaggregate.Aggregate.Execute(t.Context(), s.Store, feed, feedaggregate.End{At: time.Now().UTC()},
		feedaggregate.Options{}))(t)
	replay(lost).refused(t, 409, "ALREADY_EXISTS", "feed of its event was deleted")
	replay(uuid.NewString()).refused(t, 404, "NOT_FOUND", "delivery not found")
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
// then those of both are counted, or of the one that is named, or
// with the type or reason that is.
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

// TestMetrics_refusals: what can't be answered is refused by the name of its parameter.
func TestMetrics_refusals(t *testing.T) {
	s := serve(t)
	for query, field := range map[string]string{
		"?interval=2h": "interval",
		"?from=soon":   "from",
		"?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z":             "from",
		"?from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z&interval=5m": "at most 1000 intervals",
		"?reason=late":    "reason",
		"?type=one%20two": "type",
	} {
		s.get(t, "/events/metrics"+query).refused(t, 400, "INVALID_QUERY", field)
	}
}
