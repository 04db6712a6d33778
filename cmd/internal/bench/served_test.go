//go:build nightly

package bench

import (
	"fmt"
	"testing"
	"time"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
)

var steadyRates = []int{50, 200, 600}

// measureSteady publishes at a rate for at most 15 s, after 3 s in which the process comes to rest from its start, and
// reports what a delivery costs and how long it takes.
func (r *rig) measureSteady(rate int) {
	r.Helper()
	n, first := min(size("DELIVERIES", 5000), 15*rate), 3*rate
	r.steady(rate, first)
	r.succeeded(first)
	r.receiver.forgetLatencies()
	before := r.cost()
	r.steady(rate, n)
	r.succeeded(first + n)
	r.reportDelivered(before, n)
	r.receiver.reportCame(first + n)
}

// BenchmarkServedSteady measures the cost and the duration of a delivery at a steady rate.
func BenchmarkServedSteady(b *testing.B) {
	for _, rate := range steadyRates {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			r := newRig(b, 1)
			wait := r.profile(15)
			r.measureSteady(rate)
			wait()
		})
	}
}

// BenchmarkServedStrict is BenchmarkServedSteady at 600/s on nodes over TCP: a lenient one, two that behave as real
// servers, whose p99 is to be within 1.5 times of the first one's, and one whose appends cost as much as theirs.
func BenchmarkServedStrict(b *testing.B) {
	var plain time.Duration
	for _, c := range []struct {
		name   string
		strict *stricttest.Strict
	}{{"plain", nil}, {"23.10", &stricttest.Strict{}}, {"25.0", &stricttest.Strict{Later: true}},
		{"25.0,costly", &stricttest.Strict{Later: true, Costly: true}}} {
		b.Run(c.name, func(b *testing.B) {
			address := nodetest.Listen(b, node.Config{Dir: b.TempDir(), Quirks: c.strict})
			r := newRig(b, 1, "CHILD_STORE=esdb://"+address+"?tls=false")
			r.measureSteady(600)
			p99 := r.receiver.reportLatencies("")
			if c.strict == nil {
				plain = p99
			} else if plain > 0 && !c.strict.Costly {
				reportAtMost(b, "p99-of-plain", float64(p99)/float64(plain), 1.5)
				report(b, "dropped", float64(c.strict.Dropped()))
			}
		})
	}
}

// BenchmarkServedIdle measures the processor time of an idle server and its Postgres in a second, 3 s after its start.
func BenchmarkServedIdle(b *testing.B) {
	const seconds = 20
	r := newRig(b, 1)
	r.steady(50, 150)
	r.succeeded(150)
	time.Sleep(3 * time.Second)
	before, wait := r.cost(), r.profile(seconds)
	time.Sleep(seconds * time.Second)
	r.reportCost(before, seconds, "s")
	wait()
}

// BenchmarkServedFull: published over HTTP → recorded as succeeded, as fast as it goes.
func BenchmarkServedFull(b *testing.B) {
	for _, destinations := range []int{1, 10} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
			r, n := newRig(b, destinations), size("DELIVERIES", 5000)/destinations
			began, before, wait := time.Now(), r.cost(), r.profile(5)
			r.flood(n)
			r.succeeded(n * destinations)
			took := time.Since(began)
			r.reportDelivered(before, n*destinations)
			r.receiver.reportCame(n * destinations)
			r.reportRate(float64(n*destinations)/took.Seconds(), destinations)
			wait()
		})
	}
}

// reportRate reports a rate, and which part it is of the bare sender's in the same run.
func (r *rig) reportRate(delivered float64, destinations int) {
	report(r.TB, "delivered/s", delivered)
	if bare := bareRate[destinations]; bare > 0 {
		report(r.TB, "%-of-bare", 100*delivered/bare)
	}
}
