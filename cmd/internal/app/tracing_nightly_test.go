//go:build nightly

package app_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// A collector that does not answer delays neither deliveries nor, by more than 5 s, the end of the process.
func TestTracing_hangingCollector(t *testing.T) {
	released := make(chan struct{})
	hanging := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-released }))
	t.Cleanup(func() { close(released); hanging.Close() })
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", hanging.URL)
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "10")
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1")
	p := newProcess(t, nil)
	url, arrived := p.endpoint(statuses(http.StatusNoContent))
	p.connect("crm", url, 0)
	for range 20 {
		p.publishTraced("00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01")
		p.await(arrived)
	}
	ended := make(chan struct{})
	go func() { defer close(ended); p.close() }()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the process did not end")
	}
}
