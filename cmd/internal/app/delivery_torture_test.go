//go:build nightly

package app_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/adminclient"
)

const (
	maxOutage  = 10 * time.Second
	waiting    = 200                   // deliveries that wait for their retry meanwhile
	publishers = 4                     // …
	pace       = 20 * time.Millisecond // of each
	inFlight   = 32                    // at most, of so few publishers
)

// Events are published and delivered while faults happen. Whatever was acknowledged arrives, signed; what was in flight
// may come again, under the same webhook-id; deliveries resume soon; and retries stay planned as they were.
// CARILLON_TORTURE_KILLS is the number of faults where they are drawn, CARILLON_TORTURE_ONLY a part of their names.
func TestTortureDelivery(t *testing.T) {
	asked := os.Getenv("CARILLON_TORTURE_KILLS")
	for name, of := range map[string]struct {
		on       layout
		retries  bool // deliveries wait for their retry
		restless bool // the next fault does not wait until all is well
		faults   []fault
		usual    []fault // if none is asked for: the others take half an hour
	}{
		"of one": {
			on:       layout{servers: 1},
			restless: true,
			faults:   []fault{serverKilled, storeKilled, postgresKilled},
			usual:    []fault{serverKilled, storeKilled, postgresKilled},
		},
		"of two": {
			on:      layout{servers: 2, env: []string{"CHILD_RETRY=1h"}},
			retries: true,
			faults:  ofTwo,
			usual:   []fault{sessionsEnded, postgresKilled, holderStopped},
		},
		"of two that are cut off": {
			on:      layout{servers: 2, severable: true, env: []string{"CHILD_RETRY=1h"}},
			retries: true,
			faults:  cuts(),
		},
		"of two without connections": {
			on:      layout{servers: 2, env: []string{"CHILD_RETRY=1h"}},
			retries: true,
			faults:  []fault{taken(20), taken(6)},
		},
		"of deliverers": {
			on: layout{roles: []string{"api,project,dispatch", "deliver", "deliver"}, severable: true,
				env: []string{"CHILD_RETRY=1h"}},
			retries: true,
			faults:  ofDeliverer(),
		},
	} {
		t.Run(name, func(t *testing.T) {
			faults := slices.DeleteFunc(slices.Clone(of.faults), func(f fault) bool {
				return !strings.Contains(f.name, os.Getenv("CARILLON_TORTURE_ONLY"))
			})
			switch {
			case asked == "" && of.usual == nil || len(faults) == 0:
				t.Skip("make torture-delivery asks for it")
			case asked == "":
				faults = of.usual
			case of.usual != nil:
				faults = drawn(t, faults, asked)
			}
			if of.usual != nil {
				t.Parallel()
			}
			p := newPublishing(newCluster(t, of.on), of.retries)
			before := p.schedules()
			stop := p.publish()
			results := map[string]*damage{}
			for _, f := range faults {
				if results[f.name] == nil {
					results[f.name] = &damage{}
				}
				if of.restless {
					p.eventually("something is acknowledged", p.acknowledges())
					time.Sleep(time.Duration(rand.IntN(600)) * time.Millisecond) //nolint:gosec // at any moment
					f.strike(p.cluster)
					results[f.name].add(0, 0)
				} else {
					p.eventually("all is well before "+f.name, func() bool { return p.well(time.Now().Add(-quiet)) })
					results[f.name].add(p.suffer(f, asked != ""))
				}
			}
			stop()
			p.report(results)
			p.eventually("retries can be read", func() bool { return p.schedules() != nil })
			if !maps.Equal(before, p.schedules()) {
				t.Errorf("of %d planned retries some were moved", len(before))
			}
			verifyReadModels(t, adminclient.New(p.admins[0], p.token))
		})
	}
}

// drawn are n of some faults by chance, each as often as others.
func drawn(t *testing.T, faults []fault, asked string) (all []fault) {
	t.Helper()
	n, err := strconv.Atoi(asked)
	if err != nil {
		t.Fatal(err)
	}
	for len(all) < n {
		rand.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
		all = append(all, faults[:min(len(faults), n-len(all))]...)
	}
	return all
}

// damage is the effect of faults of one kind.
type damage struct {
	times, again int
	outage       time.Duration // the longest
}

func (d *damage) add(again int, outage time.Duration) {
	d.times++
	d.again += again
	d.outage = max(d.outage, outage)
}
