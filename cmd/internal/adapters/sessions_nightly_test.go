//go:build nightly

package adapters_test

import (
	"testing"
	"time"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
)

// loseSessions ends the sessions that hold the workers' locks.
func (s *queueFixture) loseSessions() {
	s.Helper()
	must.Get(s.pool.Exec(s.Context(), `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'carillon locks on %'`))(s)
}

// All workers lose their sessions at the same time, as when Postgres starts again: none counts as dead. The deliveries
// of a worker that is dead are taken over within 10 s.
func TestLostSessions_areNoDeath(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	mine, _ := s.queue(0)
	theirs, die := s.queue(0)
	held := s.schedule()
	s.claims(theirs, held)
	for range 3 {
		before, _ := theirs.Holding()
		s.loseSessions()
		s.eventuallyHolds(theirs, before+1)
		for end := time.Now().Add(time.Second); time.Now().Before(end); {
			ids, _ := s.claim(mine)
			must.True(t, len(ids) == 0, "%v was taken from a worker that lives", ids)
			<-time.After(5 * time.Millisecond)
		}
	}
	die()
	died := time.Now()
	s.claims(mine, held)
	took := time.Since(died)
	assert.True(t, took >= 2*time.Second, "taken over after %s, want 3 s at least", took)
	t.Logf("taken over after %s", took) // within 10 s if the machine isn't busy
}
