package sending

import (
	"testing"

	"carillon/command/delivery/schedule"
	"carillon/eventstore"
)

// BenchmarkTracingOff measures what attempting a delivery costs more for a tracing that is off.
func BenchmarkTracingOff(b *testing.B) {
	deliverer, held := &Deliverer{}, &schedule.Delivery{Body: &Body{}}
	b.ReportAllocs()
	for b.Loop() {
		if _, own, end := deliverer.traceAttempt(b.Context(), held); own != (eventstore.Trace{}) || end != nil {
			b.Fatal("a span was begun")
		}
	}
}
