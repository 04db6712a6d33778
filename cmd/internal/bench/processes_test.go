//go:build nightly

package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// BenchmarkProcesses measures the processor time of a delivery, its delay, and the sessions of Postgres, with 1 to 8
// processes of all roles on one event store and one Postgres, at a steady rate and as fast as it goes. Each event goes
// to four destinations.
func BenchmarkProcesses(b *testing.B) {
	const destinations, rate = 4, 100
	for _, n := range []int{1, 2, 4, 8} {
		b.Run(fmt.Sprintf("processes=%d", n), func(b *testing.B) {
			a := newApart(b, slices.Repeat([]string{"api,project,dispatch,deliver,collect"}, n)...)
			a.login()
			a.receive(a.came, destinations)
			published := 0
			// do publishes and reports the processor time of a delivery in ms, in all and of each part.
			do := func(name string, events int, publish func(events, recorded int)) {
				before := a.processorTimes()
				began := time.Now()
				published += events
				publish(events, destinations*published)
				deliveries := float64(destinations * events)
				report(b, name+"-deliveries/s", deliveries/time.Since(began).Seconds())
				all, servers := 0.0, 0.0
				for i, now := range a.processorTimes() {
					each := milliseconds(now-before[i]) / deliveries
					if all += each; i > 1 {
						servers += each
					} else {
						report(b, name+"-cpu-ms/delivery-"+[]string{"postgres", "store"}[i], each)
					}
				}
				report(b, name+"-cpu-ms/delivery-servers", servers)
				report(b, name+"-cpu-ms/delivery", all)
			}
			steady := func(events, recorded int) {
				took := a.publish(rate, events, recorded)
				slices.Sort(took)
				report(b, "steady-p50-ms", milliseconds(took[events/2]))
				report(b, "steady-p99-ms", milliseconds(took[events*99/100]))
			}
			full := func(events, recorded int) {
				a.flood(events)
				a.succeeded(recorded)
			}
			a.publish(rate, 2*rate, destinations*2*rate) // until all have come to rest from their start
			published = 2 * rate
			do("steady", min(size("DELIVERIES", 5000)/destinations, 10*rate), steady)
			report(b, "sessions", float64(a.count(
				"SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend' AND pid <> pg_backend_pid()")))
			do("full", size("DELIVERIES", 5000)/destinations, full)
		})
	}
}
