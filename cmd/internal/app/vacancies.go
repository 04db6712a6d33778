package app

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections"
)

const (
	vacantAfter = 10 * time.Second // a takeover is over by then
	vacancyPoll = 5 * time.Second
)

// vacancies remembers since when no process runs a consumer, or only to fail. Postgres knows who runs it now, and
// forgets who did.
type vacancies struct {
	pool    *pgxpool.Pool
	log     *slog.Logger
	now     func() time.Time
	failing func(consumer string) (cause error) // in this process

	mu    sync.Mutex
	since map[string]time.Time // by consumer
}

func newVacancies(
	pool *pgxpool.Pool, log *slog.Logger, now func() time.Time, failing func(consumer string) (cause error),
) *vacancies {
	return &vacancies{
		pool:    pool,
		log:     log,
		now:     now,
		failing: failing,
		since:   map[string]time.Time{},
	}
}

// watch looks now and then, and logs consumers without a runner.
func (v *vacancies) watch(ctx context.Context) {
	ticker := time.NewTicker(vacancyPoll)
	defer ticker.Stop()
	said := map[string]bool{}
	for {
		if all, err := statuses(ctx, v.pool); err == nil { // else others say that Postgres is away
			for _, s := range all {
				vacant := v.vacant(s)
				if vacant && !said[s.Name] && v.failing(s.Name) == nil { // the runner says why it fails
					v.log.Warn("no process runs a consumer: is one up that has its role?", "consumer", s.Name)
				}
				said[s.Name] = vacant
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// vacant notes the runner of a consumer, and reports whether it has had none for a while, or one that fails at each
// start. A stopped consumer has none.
func (v *vacancies) vacant(s projections.Status) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.Process != "" && v.failing(s.Name) == nil || s.Stopped != "" {
		delete(v.since, s.Name)
		return false
	}
	since, known := v.since[s.Name]
	if !known {
		since = v.now()
		v.since[s.Name] = since
	}
	return v.now().Sub(since) >= vacantAfter
}
