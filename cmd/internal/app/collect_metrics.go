package app

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/source"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/visiting"
)

// collectMetrics are the metrics of a process's visits to sources.
type collectMetrics struct {
	visits, observations *prometheus.CounterVec
	requests             *prometheus.HistogramVec
}

// newCollectMetrics registers them. Each label has few values, and is there from the beginning if it may be waited for.
func (c *collecting) newCollectMetrics() *collectMetrics {
	m := &collectMetrics{
		visits: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_collect_visits_total", Help: "Visits to sources by type and how they ended.",
		}, []string{"type", "outcome"}),
		observations: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "carillon_collect_observations_total",
			Help: "Events that were found to be new at a source, revised, or stale: not on show any more.",
		}, []string{"kind"}),
		requests: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "carillon_collect_requests_seconds", Help: "Requests to sources, those for robots.txt too, by how they ended.",
			Buckets: []float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
		}, []string{"outcome"}),
	}
	for _, sourceType := range source.Types() {
		m.visits.WithLabelValues(sourceType, "ok")
	}
	for _, kind := range visiting.Kinds() {
		m.observations.WithLabelValues(kind)
	}
	for _, outcome := range fetch.Outcomes() {
		m.requests.WithLabelValues(outcome)
	}
	c.Metrics.MustRegister(m.visits, m.observations, m.requests)
	return m
}

// visited counts a visit. Sources of unknown types count as "other".
func (m *collectMetrics) visited(sourceType, outcome string) {
	if !slices.Contains(source.Types(), sourceType) {
		sourceType = "other"
	}
	m.visits.WithLabelValues(sourceType, outcome).Inc()
}

func (m *collectMetrics) found(kind string) { m.observations.WithLabelValues(kind).Inc() }

func (m *collectMetrics) answered(outcome string, took time.Duration) {
	m.requests.WithLabelValues(outcome).Observe(took.Seconds())
}

var (
	collectDue = prometheus.NewDesc("carillon_collect_due_seconds",
		"For how long the source has been due that waits longest for its visit; 0 if none waits.", nil, nil)
	collectHosts = prometheus.NewDesc("carillon_collect_hosts_waiting",
		"Hosts with sources that are due and wait for their visit.", nil, nil)
)

// readWaiting looks for sources that wait, so that every process reports the same, also if none collects. Without
// Postgres it reports nothing.
func (c *collecting) readWaiting(ctx context.Context, to scrape) {
	waiting, err := c.readModels.queries.WaitingSources(ctx)
	if err != nil {
		c.log.Warn("how long sources wait for their visits can't be read", "error", err)
		return
	}
	to.gauge(collectDue, waiting.Longest.Seconds())
	to.gauge(collectHosts, float64(waiting.Hosts))
}
