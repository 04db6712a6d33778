package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/front"
	"carillon/command/delivery"
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
func (a *App) readConnections(_ context.Context, to scrape) {
	for name, listener := range map[string]*front.Bounded{"api": a.listeners.api, "admin": a.listeners.admin} {
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

func oneIf(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// deliveryMetrics registers the metrics of delivery and returns the function that counts an attempt.
func (a *App) deliveryMetrics() func(delivery.Attempt) {
	attempts := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "carillon_delivery_attempt_seconds", Help: "Delivery attempts by outcome and trigger.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"outcome", "trigger"})
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_delivery_queued", Help: "Deliveries that wait in this process.",
	}, func() float64 { n, _ := a.deliverer.Load(); return float64(n) })
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_delivery_in_flight", Help: "Requests of this process in flight.",
	}, func() float64 { _, n := a.deliverer.Load(); return float64(n) })
	a.Metrics.MustRegister(attempts, queued, running)
	return func(at delivery.Attempt) {
		outcome := string(at.FailureReason)
		if outcome == "" {
			outcome = "succeeded"
		}
		attempts.WithLabelValues(outcome, string(at.Trigger)).Observe(at.Duration.Seconds())
	}
}

// limitMetrics registers the metric of limits and returns the function that counts a refusal.
func (a *App) limitMetrics() func(organization.Limit) {
	refused := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "carillon_limit_refusals_total", Help: "Requests refused because their organization has reached a limit.",
	}, []string{"limit"})
	for _, d := range organization.Definitions() {
		refused.WithLabelValues(string(d.Limit))
	}
	for _, bound := range organization.Bounds() {
		refused.WithLabelValues(string(bound))
	}
	a.Metrics.MustRegister(refused)
	return func(limit organization.Limit) { refused.WithLabelValues(string(limit)).Inc() }
}

// storeMetrics registers the metrics of the event store: of the connection to a server, and of the embedded node.
func (a *App) storeMetrics() {
	a.Metrics.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "carillon_eventstore_resubscribed_total",
		Help: "Subscriptions that the event store dropped because of a burst, each of which went on at once.",
	}, func() float64 {
		if a.base.server == nil {
			return 0
		}
		return float64(a.base.server.Resubscribed())
	}))
	if a.base.full == nil {
		return
	}
	a.Metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_eventstore_writable", Help: "0 while the embedded event store refuses appends because its disk is " +
			"full, else 1.",
	}, func() float64 { return oneIf(!a.base.full()) }))
}
