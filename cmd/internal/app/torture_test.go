//go:build nightly

package app_test

import (
	"os"
	"strconv"
	"testing"
	"time"
)

// load is what a cluster does while it suffers, and what must hold of it.
type load struct {
	on     layout
	faults []fault // in turn
	least  int     // faults, if CARILLON_TORTURE_KILLS asks for no other number. 0 means it runs only if asked for, alone
	most   int     // however many are asked for. 0 means any number
	begin  func(c *cluster) run
}

// run is a load that has begun.
type run struct {
	moment func(i int)    // begins the i-th operation, and returns at the moment of the i-th fault. Optional
	holds  func(s struck) // expects what must hold after a fault. Optional
	ends   func()         // expects what must hold at last. Optional
}

// struck is a fault that is over.
type struck struct {
	fault
	i            int // from 0
	began, ended time.Time
}

// A server is killed, stopped or cut off while something goes on that takes several steps: each comes to its end, once.
func TestTorture(t *testing.T) {
	for name, of := range map[string]load{
		"rotation of the master key":        rotation,
		"deletion of an organization":       deletion,
		"webhooks of the operators":         operatorWebhooks,
		"bursts that are dispatched":        bursts,
		"events of one":                     published(layout{servers: 1}, ofOne, 3),
		"events of two":                     published(layout{servers: 2}, ofTwo, 3),
		"events of two that are cut off":    published(layout{servers: 2, severable: true}, cuts(), 0),
		"events of two without connections": published(layout{servers: 2}, []fault{taken(20), taken(6)}, 0),
		"events of deliverers apart":        published(deliverersApart, ofDeliverer(), 0),
	} {
		t.Run(name, func(t *testing.T) {
			kills := tortureKills(of.least)
			switch {
			case kills == 0:
				t.Skip("make torture-delivery asks for it")
			case of.least > 0:
				t.Parallel()
			}
			if of.most > 0 {
				kills = min(kills, of.most)
			}
			c := newCluster(t, of.on)
			r := of.begin(c)
			for i := range kills {
				if r.moment != nil {
					r.moment(i)
				}
				s := struck{fault: of.faults[i%len(of.faults)], i: i, began: time.Now()}
				s.strike(c)
				s.ended = time.Now()
				if r.holds != nil {
					r.holds(s)
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
