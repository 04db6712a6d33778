//go:build nightly

package bench

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const (
	watched   = 5 * time.Second
	askedRate = 100 // requests of another organization a second
)

// BenchmarkHostileMadeUpKeys sends 10,000 requests a second with unknown keys, each another one. Their cost to others
// is the ratio of the 99th percentiles, beside them and alone.
func BenchmarkHostileMadeUpKeys(b *testing.B) {
	r := newRig(b, 0)
	alone := r.listing("alone-")
	ctx, cancel := context.WithCancel(context.Background())
	var attacks sync.WaitGroup
	var sent atomic.Int64
	began := time.Now()
	for range 8 {
		attacks.Go(func() { r.makeUpKeys(ctx, 1250, &sent) })
	}
	beside := r.listing("")
	report(b, "attacks/s", float64(sent.Load())/time.Since(began).Seconds())
	cancel()
	attacks.Wait()
	reportOfAlone(b, "", beside, alone)
}

// makeUpKeys sends many requests a second over one connection, without waiting for answers.
func (r *rig) makeUpKeys(ctx context.Context, rate int, sent *atomic.Int64) {
	conn, err := net.Dial("tcp", r.api)
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
				rand.IntN(100_000_000), strings.Repeat("0", 43))
			sent.Add(1)
		}
		if err := out.Flush(); err != nil {
			r.Error("the connection was closed:", err)
			return
		}
	}
}

// listing times answers that need Postgres, at a steady rate, and returns the 99th percentile.
func (r *rig) listing(prefix string) (p99 time.Duration) {
	var mu sync.Mutex
	var took []time.Duration
	var asking sync.WaitGroup
	ticks := time.NewTicker(time.Second / askedRate)
	defer ticks.Stop()
	for range int(watched.Seconds()) * askedRate {
		<-ticks.C
		asking.Go(func() {
			began := time.Now()
			assert.OK(r, r.call("GET", r.api+"/feeds/events", r.key, nil, nil))
			mu.Lock()
			defer mu.Unlock()
			took = append(took, time.Since(began))
		})
	}
	asking.Wait()
	return reportQuantiles(r.TB, prefix, took)
}

// BenchmarkHostileReaders: a thousand clients that ask for a list of a megabyte, again and again, and read nothing.
// Their cost is the memory of the process beyond what it had.
func BenchmarkHostileReaders(b *testing.B) {
	const clients, feeds = 1000, 100
	r := newRig(b, 0)
	for i := range feeds {
		must.OK(b, r.post("/feeds/events", map[string]any{"name": fmt.Sprint(i), "description": strings.Repeat("d", 10_000)},
			nil))
	}
	before, most := r.heap(), 0.0
	asked := strings.Repeat("GET /feeds/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+r.key+"\r\n\r\n", 50)
	for range clients {
		conn := must.Get(net.Dial("tcp", r.api))(b)
		b.Cleanup(func() { _ = conn.Close() })
		must.Get(conn.Write([]byte(asked)))(b)
	}
	for began := time.Now(); time.Since(began) < watched; time.Sleep(time.Second / 2) {
		most = max(most, r.heap())
	}
	reportAtMost(b, "more-MB", most-before, 50)
}

// heap returns what heap and stacks of the server take, in MB.
func (r *rig) heap() (megabytes float64) {
	_, text := r.look("/metrics")
	for _, name := range []string{"go_memstats_heap_inuse_bytes", "go_memstats_stack_inuse_bytes"} {
		_, value, _ := strings.Cut(text, "\n"+name+" ")
		line, _, _ := strings.Cut(value, "\n")
		bytes := must.Get(strconv.ParseFloat(line, 64))(r)
		megabytes += bytes / (1 << 20)
	}
	return megabytes
}
