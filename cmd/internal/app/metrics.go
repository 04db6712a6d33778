package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/front"
	"carillon/eventstore/panics"
	"carillon/projections/deliveries/deliverystate"
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

var (
	deliveriesPending = prometheus.NewDesc("carillon_deliveries_pending",
		"Deliveries without a final status, of all organizations.", nil, nil)
	deliveriesOverdue = prometheus.NewDesc("carillon_deliveries_overdue_seconds",
		"Time since the delivery that has been due for longest was due; 0 if none is.", nil, nil)
	deliveriesFailed = prometheus.NewDesc("carillon_deliveries_failed",
		"Deliveries whose retries are used up.", nil, nil)
	deliveriesByState = prometheus.NewDesc("carillon_deliveries",
		"Deliveries by state, of all organizations.",
		[]string{"state"}, nil)
	destinationsAutoDisabled = prometheus.NewDesc("carillon_destinations_auto_disabled",
		"Destinations that were disabled because of their failures.", nil, nil)
	sourcesByState = prometheus.NewDesc("carillon_sources",
		"Sources by state.", []string{"state"}, nil)
	postgresSize = prometheus.NewDesc("carillon_postgres_size_bytes",
		"Size of the database.", nil, nil)
	eventStoreSize = prometheus.NewDesc("carillon_eventstore_size_bytes",
		"Size of the embedded event store's directory.", nil, nil)
)

// readInstallation reads totals of the whole installation, so that every process reports the same. It reports what it
// could read within the scrape timeout.
func (m *readModels) readInstallation(ctx context.Context, to scrape) {
	if dir := m.storeDir(); dir != "" {
		to.gauge(eventStoreSize, float64(sizeOf(dir)))
	}
	totals, err := m.queries.InstallationTotals(ctx, time.Now())
	if err != nil {
		m.log.Warn("delivery totals unavailable", "error", err)
	} else {
		to.gauge(deliveriesPending, float64(totals.Pending()))
		to.gauge(deliveriesOverdue, totals.Overdue.Seconds())
		to.gauge(deliveriesFailed, float64(totals.Failed))
		for _, state := range deliverystate.States() {
			to.gauge(deliveriesByState, float64(totals.By[state]), string(state))
		}
		to.gauge(destinationsAutoDisabled, float64(totals.AutoDisabled))
	}
	states, err := m.queries.CountSources(ctx)
	if err != nil {
		m.log.Warn("source totals unavailable", "error", err)
	}
	for state, n := range states {
		to.gauge(sourcesByState, float64(n), state)
	}
	size, err := m.queries.DatabaseSize(ctx)
	if err != nil {
		m.log.Warn("database size unavailable", "error", err)
		return
	}
	to.gauge(postgresSize, float64(size))
}
