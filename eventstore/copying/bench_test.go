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

// BenchmarkCopy copies and compares streams of two events of 500 bytes, embedded node to embedded node. The events of a
// stream lie apart in the log, so each is an append of its own: the worst case.
func BenchmarkCopy(b *testing.B) {
	const streams = 2000
	source := nodetest.Start(b)
	for revision := range 2 {
		for i := range streams {
			list := entries(1)
			list[0].Data = fmt.Appendf(nil, `"%0500d"`, i)
			if _, err := source.AppendEntries(b.Context(), fmt.Sprintf("thing-%d", i), eventstore.Revision(revision-1), list); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		b.StopTimer()
		dir, socket := b.TempDir(), nodetest.SocketDir(b)+"/s"
		stop := nodetest.Serve(b, dir, socket)
		target, err := esdb.OpenUnix(socket, slog.New(slog.DiscardHandler))
		if err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		result, err := copying.Copy(b.Context(), source, target, copying.Options{})
		if err != nil || result.Compared != 2*streams {
			b.Fatalf("%+v, %v", result, err)
		}
		b.StopTimer()
		if err := target.Close(); err != nil {
			b.Error(err)
		}
		stop()
		b.StartTimer()
	}
	b.ReportMetric(float64(2*streams*b.N)/b.Elapsed().Seconds(), "events/s")
}
