package adminapi

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

// Limits of the events on their way into the store at one time, of all bodies of many events together; the second
// applies while single events are published. The store commits in groups, in the order of its requests, so a single
// event waits for at most that much.
const (
	intakeEvents = 128
	intakeBeside = 32
	intakeBytes  = 2 << 20
	besideFor    = time.Second // after the last single event
)

// intake lets the events of bodies into the store, in the order in which they wait. Each body has a number of them that
// do, so bodies share it.
type intake struct {
	room   *semaphore.Weighted
	single atomic.Int64 // when the last single event came, in Unix nanoseconds
}

func newIntake() *intake { return &intake{room: semaphore.NewWeighted(intakeBytes)} }

// beside notes that a single event is being published.
func (i *intake) beside() { i.single.Store(time.Now().UnixNano()) }

// enter waits for the turn of an event of a size in bytes. left is to be called once it is recorded, or refused.
func (i *intake) enter(ctx context.Context, size int64) (left func(), err error) {
	part := int64(intakeBytes / intakeEvents)
	if time.Since(time.Unix(0, i.single.Load())) < besideFor {
		part = intakeBytes / intakeBeside
	}
	part = min(max(size, part), intakeBytes)
	if err := i.room.Acquire(ctx, part); err != nil {
		return nil, fmt.Errorf("wait for the turn of an event: %w", err)
	}
	return func() { i.room.Release(part) }, nil
}
