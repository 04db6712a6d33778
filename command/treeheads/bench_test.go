package treeheads_test

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/node"
	"carillon/eventstore/storetest/must"
)

// openNode opens an embedded node on disk.
func openNode(b *testing.B) eventstore.Store {
	b.Helper()
	dir := filepath.Join(b.TempDir(), "store")
	n := must.Get(node.Open(node.Config{Dir: dir}))(b)
	b.Cleanup(func() {
		must.OK(b, n.Close())
	})
	return n.Store()
}

// event is an event of the usual size.
func event() eventstore.Proposed {
	return eventstore.Proposed{
		ID:       uuid.New(),
		Type:     "delivery.attempted.v1",
		Data:     fmt.Appendf(nil, `{"text":"%s"}`, bytes.Repeat([]byte("x"), 600)),
		Metadata: []byte(`{"organization":"0c000000-0000-4000-8000-000000000001","actor":"deliverer","schemaVersion":1}`),
	}
}

// used returns the processor time of this process.
func used(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	must.OK(b, syscall.Getrusage(syscall.RUSAGE_SELF, &usage))
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// appendAll appends n events one by one, by several writers, each to a stream of its own.
func appendAll(b *testing.B, store eventstore.Store, n, writers int) {
	b.Helper()
	var left atomic.Int64
	var working sync.WaitGroup
	left.Store(int64(n))
	for range writers {
		working.Go(func() {
			for left.Add(-1) >= 0 {
				stream := eventstore.StreamName("delivery", uuid.New())
				if _, err := store.Append(b.Context(), stream, eventstore.NoStream, []eventstore.Proposed{event()}); err != nil {
					b.Error(err)
					return
				}
			}
		})
	}
	working.Wait()
}

// BenchmarkSealCost measures the processor time of an append and, apart from it, of the seal of what was appended.
func BenchmarkSealCost(b *testing.B) {
	for _, writers := range []int{1, 16, 256} {
		b.Run(fmt.Sprintf("writers=%d", writers), func(b *testing.B) {
			store := openNode(b)
			appendAll(b, store, 1000, writers)
			s := sealer(store)
			must.Get(s.Seal(b.Context(), by))(b)
			b.ResetTimer()
			began := used(b)
			appendAll(b, store, b.N, writers)
			appended := used(b)
			must.Get(s.Seal(b.Context(), by))(b)
			n := float64(b.N) * float64(time.Microsecond)
			forAppend, forSeal := float64(appended-began), float64(used(b)-appended)
			b.ReportMetric(forAppend/n, "append-cpu-µs/op")
			b.ReportMetric(forSeal/n, "seal-cpu-µs/op")
			b.ReportMetric(100*forSeal/forAppend, "%")
		})
	}
}

// BenchmarkSealVerify measures a seal of a log, its verification. EVENTS is their number,
// a million if it is not set.
func BenchmarkSealVerify(b *testing.B) {
	events, err := strconv.Atoi(os.Getenv("EVENTS"))
	if err != nil {
		events = 1_000_000
	}
	store := openNode(b)
	const batch = 500
	for range events / batch {
		list := make([]eventstore.Proposed, batch)
		for i := range list {
			list[i] = event()
		}
		must.Get(store.Append(b.Context(), eventstore.StreamName("delivery", uuid.New()), eventstore.NoStream, list))(b)
	}
	b.Run("seal", func(b *testing.B) {
		for range b.N {
			began := used(b)
			heads := must.Get(sealer(store).Seal(b.Context(), by))(b)
			if len(heads) > 0 { // else it is sealed already
				b.ReportMetric((used(b) - began).Seconds(), "cpu-s")
			}
		}
	})
	b.Run("verify", func(b *testing.B) {
		v := treeheads.Verification{
			Store:   store,
			All:     func(ctx context.Context) iter.Seq2[eventstore.Recorded, error] { return upToHead(ctx, b, store) },
			Trusted: trusted,
		}
		began := used(b)
		for range b.N {
			report, err := v.Run(b.Context())
			must.True(b, err == nil && report.OK(), "%+v, %v", report, err)
		}
		b.ReportMetric((used(b)-began).Seconds()/float64(b.N), "cpu-s")
		b.ReportMetric(float64(b.N*events)/b.Elapsed().Seconds(), "events/s")
	})
}

// upToHead yields the events up to the present end of the log.
func upToHead(ctx context.Context, b *testing.B, store eventstore.Store) iter.Seq2[eventstore.Recorded, error] {
	b.Helper()
	return func(yield func(eventstore.Recorded, error) bool) {
		head := must.Get(store.Head(ctx))(b)
		for e, err := range eventstore.Between(ctx, store, eventstore.Start, head, eventstore.Filter{}) {
			must.OK(b, err)
			if !yield(*e, nil) {
				return
			}
		}
	}
}
