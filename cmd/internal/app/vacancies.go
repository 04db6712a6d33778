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

// vacancies remembers since when no process runs a consumer. Postgres knows who runs it now, and forgets who did.
type vacancies struct {
	pool *pgxpool.Pool
	log  *slog.Logger
	now  func() time.Time

	mu    sync.Mutex
	since map[string]time.Time // by consumer
}

func newVacancies(pool *pgxpool.Pool, log *slog.Logger, now func() time.Time) *vacancies {
	return &vacancies{
		pool:  pool,
		log:   log,
		now:   now,
		since: map[string]time.Time{},
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
				if vacant && !said[s.Name] {
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

// vacant notes the runner of a consumer, and reports whether it has had none for a while. A stopped consumer has none.
func (v *vacancies) vacant(s projections.Status) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	if s.Process != "" || s.Stopped != "" {
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
