package app_test

import (
	"net"
	"testing"

	"carillon/eventstore/node"
)

// BenchmarkStrictLatency is BenchmarkLatency on nodes over TCP: one that is kind, and two that do as real servers do. With
// a strict one, p99 is to be within 1.5 times of the plain one's.
func BenchmarkStrictLatency(b *testing.B) {
	for _, c := range []struct {
		name   string
		strict *node.Strict
	}{{"plain", nil}, {"23.10", &node.Strict{}}, {"25.0", &node.Strict{Later: true}}} {
		b.Run(c.name, func(b *testing.B) {
			n, err := node.Open(node.Config{Dir: b.TempDir(), Strict: c.strict})
			if err != nil {
				b.Fatal(err)
			}
			listener, err := (&net.ListenConfig{}).Listen(b.Context(), "tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- n.Serve(listener) }()
			b.Cleanup(func() {
				if err := n.Close(); err != nil {
					b.Error(err)
				}
				if err := <-served; err != nil {
					b.Error(err)
				}
			})
			newRigOn(b, 1, "esdb://"+listener.Addr().String()+"?tls=false").steady(600)
			if c.strict != nil {
				b.ReportMetric(float64(c.strict.Dropped()), "dropped")
			}
		})
	}
}
