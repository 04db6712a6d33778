package webhook

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"carillon/command/egress"
)

// BenchmarkSend posts signed 1 KiB envelopes to a TLS server in this process, 64 in flight, and reports deliveries per
// second; receiver and sender share the processors.
func BenchmarkSend(b *testing.B) {
	var arrived atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, err := io.Copy(io.Discard, r.Body); err == nil && n == 1024 && r.TLS != nil {
			arrived.Add(1)
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	server.StartTLS()
	b.Cleanup(server.Close)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	transport := egress.NewTransport(loopback, egress.Options{RootCAs: pool})
	b.Cleanup(transport.CloseIdleConnections)
	sender := NewSender(transport, Options{})
	secrets := []Secret{mint(b)}
	body := bytes.Repeat([]byte("x"), 1024)

	b.SetParallelism(32)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			result := sender.Send(b.Context(), Request{
				URL:     server.URL + "/hook",
				Secrets: secrets,
				ID:      "0199b6c0-0000-7000-8000-000000000000",
				Body:    body,
				Headers: map[string]string{"Authorization": "Bearer token"},
			})
			if !result.OK() {
				b.Errorf("%+v", result)
				return
			}
		}
	})
	if n := arrived.Load(); n < int64(b.N) {
		b.Fatalf("%d of %d posts arrived", n, b.N)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "posts/s")
}
