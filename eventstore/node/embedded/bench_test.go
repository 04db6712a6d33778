package embedded_test

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/node"
	"carillon/eventstore/node/embedded"
)

func onDisk(b *testing.B) *embedded.Store {
	b.Helper()
	n, err := node.Open(node.Config{Dir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := n.Close(); err != nil {
			b.Error(err)
		}
	})
	return n.Store()
}

// BenchmarkStore measures the processor time of appends of one event to new streams, and of reads of ten events.
func BenchmarkStore(b *testing.B) {
	store := onDisk(b)
	name := func(call int64) string { return "ten-" + strconv.FormatInt(call, 10) }
	data := []byte(`{"text":"` + strings.Repeat("x", 400) + `"}`)
	events := func(n int) []eventstore.Proposed {
		list := make([]eventstore.Proposed, n)
		for i := range list {
			list[i] = eventstore.Proposed{
				ID:       uuid.New(),
				Type:     "bench.done.v1",
				Data:     data,
				Metadata: []byte(`{"actor":"bench"}`),
			}
		}
		return list
	}
	const streams = 1000
	for call := range int64(streams) {
		if _, err := store.Append(b.Context(), name(call), eventstore.NoStream, events(10)); err != nil {
			b.Fatal(err)
		}
	}
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run("append/"+strconv.Itoa(writers), func(b *testing.B) {
			measured(b, writers, func(ctx context.Context) error {
				_, err := store.Append(ctx, eventstore.StreamName("bench", uuid.New()), eventstore.NoStream, events(1))
				return err
			})
		})
	}
	b.Run("read", func(b *testing.B) {
		next := atomic.Int64{}
		measured(b, 64, func(ctx context.Context) error {
			for _, err := range store.Read(ctx, name(next.Add(1)%streams), 0) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// measured calls work from so many goroutines and reports the processor time of a call.
func measured(b *testing.B, writers int, work func(context.Context) error) {
	b.Helper()
	used := func() time.Duration {
		var usage syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
			b.Fatal(err)
		}
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	began := used()
	calls, working := atomic.Int64{}, sync.WaitGroup{}
	for range writers {
		working.Go(func() {
			for calls.Add(1) <= int64(b.N) {
				if err := work(b.Context()); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
	b.ReportMetric(float64((used()-began).Microseconds())/float64(b.N), "cpu-µs/op")
}
