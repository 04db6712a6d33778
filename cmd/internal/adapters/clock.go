package adapters

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

const (
	maxClockError    = 50 * time.Millisecond // beyond what the way to Postgres explains
	loggedDifference = time.Second           // a difference that operators hear of
)

// Clock is the time by Postgres' clock. Processes compare what they plan (due times, schedules, ends of keys and
// sessions), and their own clocks differ, or are stepped. Between two looks it counts on by the monotonic clock. Before
// the first look it is the process's own time.
type Clock struct {
	Pool *pgxpool.Pool
	Log  *slog.Logger
	// Own is the process's clock. Optional: time.Now.
	Own func() time.Time

	mu    sync.Mutex
	there time.Time // by Postgres' clock,
	at    time.Time // at this moment by the monotonic one
}

// Now returns the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now(time.Now())
}

func (c *Clock) now(at time.Time) time.Time {
	switch {
	case !c.at.IsZero():
		return c.there.Add(at.Sub(c.at))
	case c.Own != nil:
		return c.Own()
	}
	return time.Now()
}

// Look compares the clock with Postgres' and sets it if they differ by more than the way there and back explains.
func (c *Clock) Look(ctx context.Context) error {
	asked := time.Now()
	there, err := c.Ask(ctx)
	if err == nil {
		c.set(asked, time.Now(), there)
	}
	return err
}

// Ask returns the time by Postgres' clock at this moment.
func (c *Clock) Ask(ctx context.Context) (there time.Time, err error) {
	if err := c.Pool.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there); err != nil {
		return there, fmt.Errorf("ask Postgres for the time: %w", err)
	}
	return there, nil
}

func (c *Clock) set(asked, answered, there time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	way := answered.Sub(asked)
	was := c.now(answered)
	first := c.at.IsZero()
	if was.Before(there.Add(-maxClockError)) || was.After(there.Add(way+maxClockError)) {
		c.there = there.Add(way / 2)
	} else {
		c.there = was
	}
	c.at = answered
	if off := c.there.Sub(was); off.Abs() > loggedDifference {
		c.Log.Warn("local clock differs; using Postgres'", "differsBy", off.Round(time.Millisecond), "start", first)
	}
}
