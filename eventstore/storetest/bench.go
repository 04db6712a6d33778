package storetest

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
	"carillon/eventstore/storetest/must"
)

// Bench measures the processor time that this process takes for a call: appends of one event to new streams by 1 to 256
// writers, and reads of streams of ten events.
func Bench(b *testing.B, store eventstore.Store) {
	b.Helper()
	name := func(call int64) string { return "ten-" + strconv.FormatInt(call, 10) }
	data := []byte(`{"text":"` + strings.Repeat("x", 400) + `"}`)
	proposed := func(n int) []eventstore.Proposed {
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
		must.Get(store.Append(b.Context(), name(call), eventstore.NoStream, proposed(10)))(b)
	}
	for _, writers := range []int{1, 16, 64, 256} {
		b.Run("append/"+strconv.Itoa(writers), func(b *testing.B) {
			measure(b, writers, func(ctx context.Context) error {
				_, err := store.Append(ctx, eventstore.StreamName("bench", uuid.New()), eventstore.NoStream, proposed(1))
				return err
			})
		})
	}
	b.Run("read", func(b *testing.B) {
		next := atomic.Int64{}
		measure(b, 64, func(ctx context.Context) error {
			for _, err := range store.Read(ctx, name(next.Add(1)%streams), 0) {
				if err != nil {
					return err
				}
			}
			return nil
		})
	})
}

// measure calls work from n goroutines and reports the processor time of a call.
func measure(b *testing.B, n int, work func(context.Context) error) {
	b.Helper()
	used := func() time.Duration {
		var usage syscall.Rusage
		must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
		return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
	}
	began := used()
	calls, working := atomic.Int64{}, sync.WaitGroup{}
	for range n {
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
