package dispatching

import (
	"testing"
)

// BenchmarkTracingOff measures what dispatching an event costs more for a tracing that is off.
func BenchmarkTracingOff(b *testing.B) {
	dispatcher, f := &Dispatcher{}, &fanOut{}
	b.ReportAllocs()
	for b.Loop() {
		if _, end := dispatcher.traceDispatch(b.Context(), f); end != nil {
			b.Fatal("a span was begun")
		}
	}
}
