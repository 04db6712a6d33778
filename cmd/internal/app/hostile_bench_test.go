package app_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// The benchmarks here attack a whole server and measure what another organization notices, in the same process: what the
// attacker's side costs is in the figures.

const (
	watched   = 5 * time.Second
	askedRate = 100 // requests of the other organization a second
)

// BenchmarkHostileMadeUpKeys: 10,000 requests a second with keys that nobody has, each another one. What they cost
// others is the ratio of the 99th percentiles, beside them and alone.
func BenchmarkHostileMadeUpKeys(b *testing.B) {
	r := newRig(b, 0)
	for b.Loop() {
		alone := r.percentile99(b)
		ctx, cancel := context.WithCancel(context.Background())
		var attacks sync.WaitGroup
		var sent atomic.Int64
		began := time.Now()
		for range 8 {
			attacks.Go(func() { r.makeUpKeys(ctx, 1250, &sent) })
		}
		beside := r.percentile99(b)
		b.ReportMetric(float64(sent.Load())/time.Since(began).Seconds(), "attacks/s")
		cancel()
		attacks.Wait()
		b.ReportMetric(float64(alone.Microseconds())/1000, "alone-p99-ms")
		b.ReportMetric(float64(beside.Microseconds())/1000, "beside-p99-ms")
		b.ReportMetric(float64(beside)/float64(alone), "ratio")
	}
}

// makeUpKeys sends many requests a second over one connection, without waiting for answers.
func (r *rig) makeUpKeys(ctx context.Context, rate int, sent *atomic.Int64) {
	conn, err := net.Dial("tcp", r.app.APIAddr().String())
	if err != nil {
		r.Error(err)
		return
	}
	defer func() { _ = conn.Close() }()
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	const beat = 10 * time.Millisecond
	ticks := time.NewTicker(beat)
	defer ticks.Stop()
	out := bufio.NewWriter(conn)
	for due := 0.0; ; {
		select {
		case <-ctx.Done():
			return
		case <-ticks.C:
		}
		for due += float64(rate) * beat.Seconds(); due >= 1; due-- {
			_, _ = fmt.Fprintf(out, "GET /feeds/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ck_%08d_%s\r\n\r\n",
				rand.IntN(100_000_000), strings.Repeat("0", 43)) //nolint:gosec // a key that nobody has
			sent.Add(1)
		}
		if err := out.Flush(); err != nil {
			r.Errorf("the connection was closed: %v", err)
			return
		}
	}
}

// percentile99 is what an organization waits for an answer that needs Postgres, at a steady rate.
func (r *rig) percentile99(b *testing.B) time.Duration {
	b.Helper()
	var mu sync.Mutex
	var took []time.Duration
	var asking sync.WaitGroup
	ticks := time.NewTicker(time.Second / askedRate)
	defer ticks.Stop()
	for range int(watched.Seconds()) * askedRate {
		<-ticks.C
		asking.Go(func() {
			began := time.Now()
			request, err := http.NewRequest(http.MethodGet, "http://"+r.app.APIAddr().String()+"/feeds/events", http.NoBody)
			if err != nil {
				b.Error(err)
				return
			}
			request.Header.Set("Authorization", "Bearer "+r.key)
			answer, err := http.DefaultClient.Do(request)
			if err != nil {
				b.Error(err)
				return
			}
			defer func() { _ = answer.Body.Close() }()
			_, _ = io.Copy(io.Discard, answer.Body)
			if answer.StatusCode != http.StatusOK {
				b.Errorf("answered %d", answer.StatusCode)
			}
			mu.Lock()
			took = append(took, time.Since(began))
			mu.Unlock()
		})
	}
	asking.Wait()
	slices.Sort(took)
	return took[len(took)*99/100]
}

// BenchmarkHostileReaders: a thousand clients that ask for a list of a megabyte, again and again, and read nothing. What
// they cost is the memory of the process beyond what it had.
func BenchmarkHostileReaders(b *testing.B) {
	const clients, feeds = 1000, 100
	r := newRig(b, 0)
	for i := range feeds {
		if _, err := post(r.app.APIAddr().String(), r.key, "/feeds/events", map[string]any{"name": fmt.Sprint(i), "description": strings.Repeat("d", 10_000)}); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		runtime.GC()
		before, most := memory(), 0.0
		var conns []net.Conn
		asked := strings.Repeat("GET /feeds/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+r.key+"\r\n\r\n", 50)
		for range clients {
			conn, err := net.Dial("tcp", r.app.APIAddr().String())
			if err != nil {
				b.Fatal(err)
			}
			conns = append(conns, conn)
			if _, err := conn.Write([]byte(asked)); err != nil {
				b.Fatal(err)
			}
		}
		for began := time.Now(); time.Since(began) < watched; time.Sleep(50 * time.Millisecond) { // a look at what is held
			most = max(most, memory())
		}
		runtime.GC()
		b.ReportMetric(most-before, "most-MB")
		b.ReportMetric(memory()-before, "MB")
		for _, conn := range conns {
			_ = conn.Close()
		}
	}
}

// memory is what heap and stacks take, in MB.
func memory() float64 {
	var now runtime.MemStats
	runtime.ReadMemStats(&now)
	return float64(now.HeapInuse+now.StackInuse) / (1 << 20)
}
