package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/front"
	"carillon/eventstore/panics"
)

const scrapeTimeout = 2 * time.Second

// scraped is a prometheus.Collector of metrics that are read at each scrape, from the stores too.
type scraped func(ctx context.Context, to scrape)

// Describe implements prometheus.Collector. Which metrics there are shows at a scrape.
func (scraped) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (read scraped) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	panics.Func("metrics", func() { read(ctx, metrics) })()
}

// scrape takes the metrics of one look.
type scrape chan<- prometheus.Metric

func (s scrape) gauge(of *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(of, prometheus.GaugeValue, value, labels...)
}

func (s scrape) count(of *prometheus.Desc, value float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(of, prometheus.CounterValue, value, labels...)
}

var panicked = prometheus.NewDesc("carillon_panics_total",
	"Panics by the part that they failed. Each is logged with its stack. Absent if there was none.", []string{"part"}, nil)

var (
	connectionsOpen = prometheus.NewDesc("carillon_connections", "Open connections of callers.", []string{"listener"}, nil)
	connectionsMost = prometheus.NewDesc("carillon_connections_max",
		"Connections of callers that may be open, by the limit of open files.", []string{"listener"}, nil)
	connectionsEvicted = prometheus.NewDesc("carillon_connections_evicted_total",
		"Connections without a request that were closed for other callers.", []string{"listener"}, nil)
)

// readConnections reads how many callers are connected.
func (s *servers) readConnections(_ context.Context, to scrape) {
	for name, listener := range map[string]*front.Bounded{"api": s.listeners.api, "admin": s.listeners.admin} {
		if listener == nil { // not a role of this process
			continue
		}
		open, most, evicted := listener.Load()
		to.gauge(connectionsOpen, float64(open), name)
		to.gauge(connectionsMost, float64(most), name)
		to.count(connectionsEvicted, float64(evicted), name)
	}
}

// readPanics counts the panics of this process.
func readPanics(_ context.Context, to scrape) {
	for part, n := range panics.Counts() {
		to.count(panicked, float64(n), part)
	}
}

func boolToFloat(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// limitMetrics registers the metric of limits and returns the function that counts a refusal.
func (p *process) limitMetrics() func(organization.Limit) {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_limit_refusals_total", Help: "Requests refused because their organization has reached a limit.",
	}, []string{"limit"})
	for _, d := range organization.Definitions() {
		refused.WithLabelValues(string(d.Limit))
	}
	for _, bound := range organization.Bounds() {
		refused.WithLabelValues(string(bound))
	}
	p.Metrics.MustRegister(refused)
	return func(limit organization.Limit) { refused.WithLabelValues(string(limit)).Inc() }
}

// processMetrics registers the metrics of any process.
func (p *process) processMetrics() {
	p.Metrics.MustRegister(
		buildInfo(ThisBuild),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		scraped(readPanics),
	)
	p.refused = p.limitMetrics()
}
