package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/projections/deliveries/deliverystate"
)

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
