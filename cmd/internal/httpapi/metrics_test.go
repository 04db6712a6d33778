package httpapi_test

import (
	"testing"
	"time"

	"carillon/projections/health"
)

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
// then those of both are counted, or of the one that is named.
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
		"?to=2026-01-02T00:00:00Z&from=2026-01-01T00:00:00Z&interval=1d": {1, 0, 0},
	} {
		var got metricsBody
		s.get(t, "/events/metrics"+query).into(t, 200, &got)
		last := got.Intervals[len(got.Intervals)-1]
		if len(got.Intervals) != want.intervals || got.Total.Attempts != want.attempts ||
			got.Total.Succeeded != want.succeeded || got.Total.Failed != want.attempts-want.succeeded ||
			(got.Total.P50 != nil) != (want.attempts > 0) || (got.Total.SuccessRate != nil) != (want.attempts > 0) ||
			!got.Intervals[0].From.Equal(got.From) || !last.From.Before(got.To) || got.Intervals[0].Attempts != 0 {
			t.Errorf("%q: %+v", query, got)
		}
	}
	_, key := s.Organization(t, "other")
	other := s.as(key)
	var foreign metricsBody
	other.get(t, "/events/metrics").into(t, 200, &foreign)
	if foreign.Total.Attempts != 0 {
		t.Errorf("another organization sees %+v", foreign.Total)
	}
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
		"?reason=timeout": "reason",
	} {
		s.get(t, "/events/metrics"+query).refused(t, 400, "INVALID_QUERY", field)
	}
}
