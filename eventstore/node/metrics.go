package node

import (
	"math"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// metrics are what /metrics shows.
type metrics struct {
	registry *prometheus.Registry
	calls    *prometheus.CounterVec // by method, of the node's methods
	inFlight *prometheus.GaugeVec
}

func newMetrics(n *Node) metrics {
	m := metrics{
		registry: prometheus.NewRegistry(),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "eventstore_node_calls_total", Help: "Calls that were begun.",
		}, []string{"method"}),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "eventstore_node_calls", Help: "Calls in flight, subscriptions among them.",
		}, []string{"method"}),
	}
	gauge := func(name, help string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value)
	}
	m.registry.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), m.calls, m.inFlight,
		gauge("eventstore_node_position", "Position of the newest durable event.", func() float64 {
			return float64(n.store.Watermark())
		}),
		gauge("eventstore_node_database_bytes", "Size of the database on the disk.", func() float64 {
			return float64(n.store.DatabaseBytes())
		}),
		gauge("eventstore_node_disk_free_bytes", "Free space on the disk.", func() float64 {
			usage, err := n.store.Disk()
			if err != nil {
				return math.NaN() // some file systems don't report it
			}
			return float64(usage.AvailBytes)
		}),
		gauge("eventstore_node_refuses_writes", "1 while writes are refused: the disk is full, or the node read-only.",
			func() float64 {
				if n.Full() || n.config.ReadOnly {
					return 1
				}
				return 0
			}),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "eventstore_node_wrong_passwords_total", Help: "Calls with a wrong user or password.",
		}, func() float64 { return float64(n.logins.Total()) }),
	)
	return m
}

// begin counts a call of a method that gRPC has found.
func (m metrics) begin(method string) (end func()) {
	name := strings.TrimPrefix(method, "/")
	m.calls.WithLabelValues(name).Inc()
	inFlight := m.inFlight.WithLabelValues(name)
	inFlight.Inc()
	return inFlight.Dec
}

func (m metrics) page() http.Handler { return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}) }
