//go:build nightly

package app_test

import (
	"os"
	"strconv"
	"testing"
)

// load is what a cluster does while it suffers, and what must hold of it.
type load struct {
	on     layout
	faults []fault // in turn
	least  int     // faults, if CARILLON_TORTURE_KILLS asks for no other number
	most   int     // however many are asked for. 0 means any number
	begin  func(c *cluster) run
}

// run is a load that has begun.
type run struct {
	moment func(i int) // begins the i-th operation, and returns at the moment of the i-th fault. Optional
	holds  func(i int) // expects what must hold after the i-th fault. Optional
	ends   func()      // expects what must hold at last. Optional
}

// A server is killed, stopped or cut off while something goes on that takes several steps: each comes to its end, once.
func TestTorture(t *testing.T) {
	for name, of := range map[string]load{
		"rotation of the master key":  rotation,
		"deletion of an organization": deletion,
		"webhooks of the operators":   operatorWebhooks,
		"bursts that are dispatched":  bursts,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kills := tortureKills(of.least)
			if of.most > 0 {
				kills = min(kills, of.most)
			}
			c := newCluster(t, of.on)
			r := of.begin(c)
			for i := range kills {
				if r.moment != nil {
					r.moment(i)
				}
				of.faults[i%len(of.faults)].strike(c)
				if r.holds != nil {
					r.holds(i)
				}
			}
			if r.ends != nil {
				r.ends()
			}
			t.Logf("%d faults", kills)
		})
	}
}

func tortureKills(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_KILLS")); err == nil {
		return n
	}
	return usual
}
