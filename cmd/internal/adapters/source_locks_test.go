package adapters_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adapters"
	"carillon/projections/pgtest"
)

func TestLocksExclude(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	mine, theirs := adapters.NewSourceLocks(pool), adapters.NewSourceLocks(pool)
	t.Cleanup(mine.Close)
	t.Cleanup(theirs.Close)
	source := uuid.New()
	unlock := lock(t, mine, source, true)
	lock(t, mine, source, false)
	lock(t, theirs, source, false)
	lock(t, theirs, uuid.New(), true)
	unlock()
	unlock = lock(t, theirs, source, true)
	unlock()
	lock(t, mine, source, true)
}

func lock(t *testing.T, locks *adapters.SourceLocks, source uuid.UUID, want bool) (unlock func()) {
	t.Helper()
	unlock, locked, err := locks.TryLock(t.Context(), source)
	if err != nil || locked != want {
		t.Fatalf("locked = %t, %v; want %t", locked, err, want)
	}
	return unlock
}

// A process that is cut off from Postgres loses its locks, and what it holds on to does not unlock those it takes
// later.
func TestLocksEndWithTheirSession(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	mine, theirs := adapters.NewSourceLocks(pool), adapters.NewSourceLocks(pool)
	t.Cleanup(mine.Close)
	t.Cleanup(theirs.Close)
	source, other := uuid.New(), uuid.New()
	unlock := lock(t, mine, source, true)
	if _, err := pool.Exec(t.Context(), "SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND application_name LIKE 'carillon monitor %'"); err != nil {
		t.Fatal(err)
	}
	unlockTheirs := lock(t, theirs, source, true)
	if _, locked, err := mine.TryLock(t.Context(), other); err == nil && !locked { // on a new one, where the loss was noticed
		t.Error("a lock that nobody holds was not given, and no error says why")
	}
	unlockTheirs()
	lock(t, mine, source, true) // on a new session
	unlock()
	lock(t, theirs, source, false)
}

func TestScheduleOfNothing(t *testing.T) {
	t.Parallel()
	w := open(t, nil)
	s := adapters.SourceSchedule{Queries: w.queries}
	if due, err := s.Due(t.Context(), time.Now(), 10); err != nil || len(due) != 0 {
		t.Errorf("due = %v, %v", due, err)
	}
	if shown, err := s.Shown(t.Context(), uuid.New()); err != nil || len(shown) != 0 {
		t.Errorf("shown = %v, %v", shown, err)
	}
}
