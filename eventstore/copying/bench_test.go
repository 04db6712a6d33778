package copying_test

import (
	"fmt"
	"log/slog"
	"testing"

	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
)

// BenchmarkCopy copies streams of two events of 500 bytes, embedded node to embedded node, whose disk is synced. The
// events of a stream lie apart in the log, so each is a separate append: the worst case. "one by one" is the former
// method; "compared" is all work of the command.
func BenchmarkCopy(b *testing.B) {
	const streams = 10_000
	source := nodetest.Start(b)
	for revision := range 2 {
		writeEach(b, source, streams, revision)
	}
	for _, way := range []struct {
		name    string
		options copying.Options
	}{
		{"one by one", copying.Options{CopyOnly: true, Window: 1}},
		{"ordered", copying.Options{CopyOnly: true}},
		{"compared", copying.Options{}},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				b.StopTimer()
				target, stop := onDisk(b)
				b.StartTimer()
				result, err := copying.Copy(b.Context(), source, target, way.options)
				b.StopTimer()
				if err != nil || result.Copied != 2*streams {
					b.Fatalf("%+v, %v", result, err)
				}
				stop()
				b.StartTimer()
			}
			b.ReportMetric(float64(2*streams*b.N)/b.Elapsed().Seconds(), "events/s")
		})
	}
}

// writeEach appends an event to each of many streams.
func writeEach(b *testing.B, to *esdb.Store, streams, revision int) {
	b.Helper()
	if err := to.AppendInOrder(b.Context(), 0, func(yield func(*esdb.Ordered) bool) {
		for i := range streams {
			list := entries(1)
			list[0].Data = fmt.Appendf(nil, `"%0500d"`, i)
			stream, expected := fmt.Sprintf("thing-%d", i), eventstore.Revision(revision-1)
			if !yield(&esdb.Ordered{Stream: stream, Expected: expected, Entries: list}) {
				return
			}
		}
	}); err != nil {
		b.Fatal(err)
	}
}

func onDisk(b *testing.B) (store *esdb.Store, stop func()) {
	b.Helper()
	socket := nodetest.SocketDir(b) + "/s"
	stopNode := nodetest.Serve(b, b.TempDir(), socket)
	store, err := esdb.OpenUnix(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	return store, func() {
		if err := store.Close(); err != nil {
			b.Error(err)
		}
		stopNode()
	}
}
