package httpapi_test

import (
	"bytes"
	"io"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"carillon/cmd/internal/httpapi"
)

// BenchmarkDocsStreams shows the memory of a stream over HTTP/2 whose caller, without a key, takes nothing of an asset
// of the playground.
func BenchmarkDocsStreams(b *testing.B) {
	const streams = 100
	api, err := httpapi.New(httpapi.Dependencies{
		Log:     slog.New(slog.DiscardHandler),
		Metrics: prometheus.NewRegistry(),
		Now:     time.Now,
	})
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: api, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute}
	server.Protocols.SetUnencryptedHTTP2(true)
	var lc net.ListenConfig
	listener, err := lc.Listen(b.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() { _ = server.Close() })
	for b.Loop() {
		stalled(b, listener.Addr().String(), 1) // what all share is made
		before := inUse()
		stop := stalled(b, listener.Addr().String(), streams)
		b.ReportMetric(float64(inUse()-before)/streams/1024, "KB/stream")
		stop()
	}
}

// stalled opens streams whose window is empty, and returns when all have been answered.
func stalled(b *testing.B, to string, streams int) (stop func()) {
	b.Helper()
	var dialer net.Dialer
	conn, err := dialer.DialContext(b.Context(), "tcp", to)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		b.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(http2.Setting{ID: http2.SettingInitialWindowSize, Val: 0}); err != nil {
		b.Fatal(err)
	}
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for i := range streams {
		block.Reset()
		for _, field := range []hpack.HeaderField{
			{Name: ":method", Value: "GET"}, {Name: ":scheme", Value: "http"},
			{Name: ":authority", Value: "localhost"}, {Name: ":path", Value: "/docs/swagger-ui-bundle.js"},
		} {
			_ = encoder.WriteField(field)
		}
		if err := framer.WriteHeaders(http2.HeadersFrameParam{
			StreamID:      uint32(2*i + 1),
			BlockFragment: block.Bytes(),
			EndStream:     true,
			EndHeaders:    true, //nolint:gosec // few
		}); err != nil {
			b.Fatal(err)
		}
	}
	for answered := 0; answered < streams; {
		frame, err := framer.ReadFrame()
		if err != nil {
			b.Fatal(err)
		}
		if _, is := frame.(*http2.HeadersFrame); is {
			answered++
		}
	}
	return func() { _ = conn.Close() }
}

// inUse returns the bytes of heap and stacks that are in use.
func inUse() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse) //nolint:gosec // far below
}
