package schedule_test

import (
	"testing"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
)

// Organizations take turns, however many deliveries the first of them has offered before the second.
func TestRound_alternates(t *testing.T) {
	t.Parallel()
	const each, lanes = 40, 10
	l := newLane(t)
	first, second := id(1, -1), id(2, -1)
	for n, organization := range []uuid.UUID{first, second} {
		for i := range each {
			d := &schedule.Delivery{
				ID:           id(10+n, i),
				Destination:  id(20+n, i%lanes),
				Organization: organization,
				Claimed:      true,
			}
			if !l.Offer(d, l.now) {
				t.Fatalf("delivery %d of organization %d was not taken", i, n)
			}
		}
	}
	started := map[uuid.UUID]int{}
	for n, d := range l.start() {
		started[d.Organization]++
		if ahead := started[first] - started[second]; ahead < -1 || ahead > 1 {
			t.Fatalf("after %d requests the first organization has %d, the second %d", n+1, started[first],
				started[second])
		}
	}
	if started[first] < lanes || started[second] < lanes {
		t.Errorf("started %d and %d, want at least %d of each", started[first], started[second], lanes)
	}
}
