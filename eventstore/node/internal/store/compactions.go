package store

import (
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// compactions lets as many compactions run as the database allows, as pebble.ConcurrencyLimitScheduler does, without
// looking for them ten times a second: there is more to do when one has ended, and after a flush.
type compactions struct {
	db   pebble.DBForCompaction
	poll time.Duration
	turn sync.Mutex // of whoever grants; the database's mutex is taken under it
	poke chan struct{}
	stop chan struct{}

	mu      sync.Mutex // taken under the database's
	running int
	ended   bool
}

var _ pebble.CompactionScheduler = (*compactions)(nil)

func newCompactions(poll time.Duration) *compactions {
	return &compactions{poll: poll, poke: make(chan struct{}, 1), stop: make(chan struct{})}
}

// Register implements pebble.CompactionScheduler.
func (c *compactions) Register(_ int, db pebble.DBForCompaction) {
	c.db = db
	go c.watch()
}

// Unregister implements pebble.CompactionScheduler.
func (c *compactions) Unregister() {
	c.turn.Lock() // nobody grants now, nor later
	defer c.turn.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	close(c.stop)
}

// TrySchedule implements pebble.CompactionScheduler.
func (c *compactions) TrySchedule() (bool, pebble.CompactionGrantHandle) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended || c.running >= c.db.GetAllowedWithoutPermission() {
		return false, nil
	}
	c.running++
	return true, (*granted)(c)
}

// UpdateGetAllowedWithoutPermission implements pebble.CompactionScheduler. The database's mutex is held, so that it is for
// somebody else to grant.
func (c *compactions) UpdateGetAllowedWithoutPermission() {
	select {
	case c.poke <- struct{}{}:
	default:
	}
}

func (c *compactions) watch() {
	ticker := time.NewTicker(c.poll)
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-c.poke:
		case <-ticker.C:
		}
		c.grant()
	}
}

// grant starts what waits, as far as it may.
func (c *compactions) grant() {
	c.turn.Lock()
	defer c.turn.Unlock()
	for c.room() > 0 {
		if waits, _ := c.db.GetWaitingCompaction(); !waits || !c.db.Schedule((*granted)(c)) {
			return
		}
		c.mu.Lock()
		c.running++
		c.mu.Unlock()
	}
}

func (c *compactions) room() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return 0
	}
	return c.db.GetAllowedWithoutPermission() - c.running
}

// granted is a compaction that runs.
type granted compactions

// Started implements pebble.CompactionGrantHandle.
func (*granted) Started() {}

// MeasureCPU implements pebble.CompactionGrantHandle.
func (*granted) MeasureCPU(pebble.CompactionGoroutineKind) {}

// CumulativeStats implements pebble.CompactionGrantHandle.
func (*granted) CumulativeStats(pebble.CompactionGrantHandleStats) {}

// Done implements pebble.CompactionGrantHandle.
func (g *granted) Done() {
	c := (*compactions)(g)
	c.mu.Lock()
	c.running--
	c.mu.Unlock()
	c.grant()
}
