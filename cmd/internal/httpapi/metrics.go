package httpapi

import (
	"cmp"
	"net/http"
	"time"

	"carillon/aggregates/delivery"
	"carillon/cmd/internal/wire"
	"carillon/query"
)

func (a *API) metricRoutes(r routes) {
	r.read.Get("/events/metrics", wire.Events.Handle(a.getMetrics))
}

const (
	usualInterval  = "1h"
	usualIntervals = 24 // if the caller does not say from when
	mostIntervals  = 1000
)

// getMetrics answers GET /events/metrics.
func (a *API) getMetrics(r *http.Request) (wire.Reply, error) {
	q := wire.Events.ParseQuery(r, "from", "to", "interval", "destination", "type", "reason")
	name := cmp.Or(q.OneOf("interval", query.IntervalNames()...), usualInterval)
	interval := cmp.Or(query.Intervals[name], time.Hour) // of a name that is refused below
	from, to := q.Time("from"), a.Now()
	if asked := q.Time("to"); q.Has("to") && asked.Before(to) {
		to = asked
	}
	of := query.AnswerFilter{Types: typePatterns(q), Reason: q.OneOf("reason", delivery.FailureNames()...)}
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	if whole := to.UTC().Truncate(interval); whole.Before(to) {
		to = whole.Add(interval)
	}
	if !q.Has("from") {
		from = to.Add(-usualIntervals * interval)
	}
	from, to = from.UTC().Truncate(interval), to.UTC()
	count := int(to.Sub(from) / interval)
	switch {
	case count < 1:
		q.Fail("from", "must be before to, and not in the future")
	case count > mostIntervals:
		q.Fail("from", "must be at most %d intervals before to: it is %d; ask for longer ones, or for less", mostIntervals,
			count)
	}
	if err := q.Err(); err != nil {
		return wire.Reply{}, err
	}
	if q.Has("destination") {
		var err error
		if of.Destination, err = a.destinationOfQuery(r, q.Text("destination")); err != nil {
			return wire.Reply{}, err
		}
	}
	answers, err := a.Queries.Answers(r.Context(), callerOf(r).Organization, of, interval, from, to)
	if err != nil {
		return wire.Reply{}, err
	}
	body := metricsJSON{
		From:      from,
		To:        to,
		Interval:  name,
		Total:     figuresOf(answers, to.Sub(from)),
		Intervals: make([]intervalJSON, count),
	}
	for i, within := range query.InSlots(answers, from, interval, count) {
		body.Intervals[i] = intervalJSON{from.Add(time.Duration(i) * interval), figuresOf(within, interval)}
	}
	return wire.OK(body), nil
}

type metricsJSON struct {
	From      time.Time      `json:"from"`
	To        time.Time      `json:"to"`
	Interval  string         `json:"interval"`
	Total     figuresJSON    `json:"total"`
	Intervals []intervalJSON `json:"intervals"`
}

type intervalJSON struct {
	From        time.Time `json:"from"`
	figuresJSON `json:",inline"`
}

// figuresJSON has the figures of attempts within a time. Without attempts rate and percentiles are null.
type figuresJSON struct {
	Attempts    int      `json:"attempts"`
	Succeeded   int      `json:"succeeded"`
	Failed      int      `json:"failed"`
	SuccessRate *float64 `json:"successRate"` // from 0 to 1
	PerSecond   float64  `json:"attemptsPerSecond"`
	P50         *float64 `json:"p50Ms"`
	P95         *float64 `json:"p95Ms"`
	P99         *float64 `json:"p99Ms"`
}

func figuresOf(answers []query.Answers, within time.Duration) figuresJSON {
	m := query.MetricsOf(answers)
	figures := figuresJSON{
		Attempts:  m.Attempts,
		Succeeded: m.Succeeded,
		Failed:    m.Failed,
		PerSecond: float64(m.Attempts) / within.Seconds(),
	}
	if m.Attempts > 0 {
		rate := float64(m.Succeeded) / float64(m.Attempts)
		figures.SuccessRate = &rate
		figures.P50, figures.P95, figures.P99 = milliseconds(m.P50), milliseconds(m.P95), milliseconds(m.P99)
	}
	return figures
}

// milliseconds rounds a duration to microseconds.
func milliseconds(d time.Duration) *float64 {
	ms := float64(d.Round(time.Microsecond)) / float64(time.Millisecond)
	return &ms
}
