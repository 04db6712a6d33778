package delivery

import (
	"testing"

	"carillon/eventstore"
)

// BenchmarkTracingOff measures what dispatching an event and attempting a delivery cost more for a tracing that is off.
func BenchmarkTracingOff(b *testing.B) {
	b.Run("dispatch", func(b *testing.B) {
		dispatcher, f := &Dispatcher{}, &fanOut{}
		b.ReportAllocs()
		for b.Loop() {
			if _, end := dispatcher.traceDispatch(b.Context(), f); end != nil {
				b.Fatal("a span was begun")
			}
		}
	})
	b.Run("attempt", func(b *testing.B) {
		deliverer, job := &Deliverer{}, &Job{Body: &Body{}}
		b.ReportAllocs()
		for b.Loop() {
			if _, own, end := deliverer.traceAttempt(b.Context(), job); own != (eventstore.Trace{}) || end != nil {
				b.Fatal("a span was begun")
			}
		}
	})
}
