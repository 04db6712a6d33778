//go:build nightly

package app_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The roles are apart, and one of two deliverers is killed, frozen, or cut off from Postgres or the event store for 20
// seconds. Nothing is lost, only requests in flight come twice, and no time without a delivery is long.
// CARILLON_TORTURE_ONLY chooses faults by a part of their name.
func TestTortureDeliveryApart(t *testing.T) {
	if os.Getenv("CARILLON_TORTURE_KILLS") == "" {
		t.Skip("make torture-delivery asks for it") // it takes three minutes
	}
	const length = 20 * time.Second
	w := newTwoOn(t, true, "api,project,dispatch", "deliver", "deliver")
	faults := map[string]func(){
		"killed": func() { w.servers[1].kill(); time.Sleep(length); w.servers[1].start() },
		"frozen": func() {
			w.servers[1].signal(syscall.SIGSTOP)
			time.Sleep(length)
			w.servers[1].signal(syscall.SIGCONT)
		},
	}
	for name, way := range map[string]*passage{"store": w.stores[1], "postgres": w.databases[1]} {
		for kind, begin := range map[string]func(){"vanish": way.vanish, "refuse": way.refuse} {
			faults[name+", "+kind] = func() { begin(); time.Sleep(length); way.mend() }
		}
	}
	stop := w.publish()
	var table strings.Builder
	for _, name := range slices.Sorted(maps.Keys(faults)) {
		if strings.Contains(name, os.Getenv("CARILLON_TORTURE_ONLY")) {
			fmt.Fprintf(&table, "%-20s %s\n", name, w.bear(name, faults[name]))
		}
	}
	stop()
	if lost := w.settle(patience); lost > 0 {
		t.Errorf("%d acknowledged events were not delivered", lost)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d events acknowledged, %d requests came again\n%s", len(w.told), w.copies, table.String())
}

// bear makes a fault, and returns the longest time without a delivery since its beginning, and the number of repeated requests.
func (w *two) bear(name string, fault func()) string {
	w.Helper()
	w.eventually("no end of the fault before", func() bool { return w.well(time.Now().Add(-time.Second)) })
	w.mu.Lock()
	copies := w.copies
	w.mu.Unlock()
	began := time.Now()
	fault()
	ended := time.Now()
	w.eventually(name+": no end of the outage", func() bool { return w.well(ended) })
	longest := w.longest(began)
	if longest > longOutage {
		w.Errorf("%s: %s without a delivery", name, longest.Round(10*time.Millisecond))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	again := w.copies - copies
	if again > inFlight {
		w.Errorf("%s: %d requests came again, more than were in flight", name, again)
	}
	return fmt.Sprintf("longest %8s, again %d", longest.Round(10*time.Millisecond), again)
}
