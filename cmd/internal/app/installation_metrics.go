package app

import (
	"context"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/query"
)

var (
	deliveriesPending = prometheus.NewDesc("carillon_deliveries_pending",
		"Deliveries without a final status, of all organizations.", nil, nil)
	deliveriesOverdue = prometheus.NewDesc("carillon_deliveries_overdue_seconds",
		"Time since the delivery that has been due for longest was due; 0 if none is.", nil, nil)
	deliveriesFailed = prometheus.NewDesc("carillon_deliveries_failed",
		"Deliveries whose retries are used up.", nil, nil)
	destinationsAutoDisabled = prometheus.NewDesc("carillon_destinations_auto_disabled",
		"Destinations that were disabled because of their failures.", nil, nil)
	sourcesByState = prometheus.NewDesc("carillon_sources",
		"Sources by state.", []string{"state"}, nil)
	postgresSize = prometheus.NewDesc("carillon_postgres_size_bytes",
		"Size of the database.", nil, nil)
	eventStoreSize = prometheus.NewDesc("carillon_eventstore_size_bytes",
		"Size of the embedded event store's directory.", nil, nil)
)

// installationCollector reads totals of the whole installation at each scrape, so that every process reports the same.
type installationCollector struct {
	queries *query.Queries
	store   string // directory of the embedded event store; empty if there is none
	log     *slog.Logger
}

// Describe implements prometheus.Collector.
func (*installationCollector) Describe(descriptions chan<- *prometheus.Desc) {
	for _, description := range []*prometheus.Desc{
		deliveriesPending,
		deliveriesOverdue,
		deliveriesFailed,
		destinationsAutoDisabled,
		sourcesByState,
		postgresSize,
		eventStoreSize,
	} {
		descriptions <- description
	}
}

// Collect implements prometheus.Collector. It reports what it could read within the scrape timeout.
func (c *installationCollector) Collect(metrics chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	gauge := func(description *prometheus.Desc, value float64, labels ...string) {
		metrics <- prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
	}
	if c.store != "" {
		gauge(eventStoreSize, float64(sizeOf(c.store)))
	}
	totals, err := c.queries.InstallationTotals(ctx)
	if err != nil {
		c.log.Warn("delivery totals unavailable", "error", err)
	} else {
		gauge(deliveriesPending, float64(totals.Pending))
		gauge(deliveriesOverdue, totals.Overdue.Seconds())
		gauge(deliveriesFailed, float64(totals.Failed))
		gauge(destinationsAutoDisabled, float64(totals.AutoDisabled))
	}
	states, err := c.queries.CountSources(ctx)
	if err != nil {
		c.log.Warn("source totals unavailable", "error", err)
	}
	for state, n := range states {
		gauge(sourcesByState, float64(n), state)
	}
	size, err := c.queries.DatabaseSize(ctx)
	if err != nil {
		c.log.Warn("database size unavailable", "error", err)
		return
	}
	gauge(postgresSize, float64(size))
}
