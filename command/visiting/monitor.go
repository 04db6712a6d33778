package visiting

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/eventstore/reach"
)

// MonitorName is the monitor's name as actor.
const MonitorName = "monitor"

const (
	defaultPoll   = time.Second
	defaultVisits = 512
	defaultSlice  = time.Minute
	defaultPages  = 500
	longestPause  = 5 * time.Second  // between attempts to read the schedule
	holdInterval  = 20 * time.Second // between renewals of turns, which last a minute
)

// Monitor walks sources when they are due. Any number of processes may run one.
//
// A visit that waits for its host's pace costs little, so there may be many. The fetcher of the collectors limits
// requests, and each host has one visit at a time.
type Monitor struct {
	Store      eventstore.Store
	Now        func() time.Time
	Log        *slog.Logger
	Walks      Walks
	Collectors map[string]collect.Collector // by source type
	Poll       time.Duration                // Optional. Time between polls for due sources, a second by default
	Visits     int                          // Optional. Concurrent visits, 512 by default
	// Optional. Time after which a visit yields to others of its host, a minute by default
	Slice time.Duration
	Pages int // Optional. Number of pages after which it yields too, 500 by default
	// Visited is called at the end of each visit with its outcome, one of [Outcomes]. Optional.
	Visited func(sourceType, outcome string)
	// Found is called for each happening that is new or has changed, with one of [Kinds]. Optional.
	Found func(kind string)
	// Backlog delays the collectors before they read a page. Optional.
	Backlog *Backlog
	// Reach ends all visits while the event store is unreachable, so that other processes make them. Optional.
	Reach *reach.Watch
	// Keep is how long happenings are kept after they are over; 0 means forever. Happenings that would be retired are not
	// recorded.
	Keep time.Duration
}

// retiredBefore is the time before which happenings are retired; zero means none is.
func (m *Monitor) retiredBefore() time.Time {
	if m.Keep == 0 {
		return time.Time{}
	}
	return m.now().Add(-m.Keep)
}

func (m *Monitor) now() time.Time { return m.Now().UTC().Truncate(time.Microsecond) }

// Run visits sources until the context ends, and waits for the visits in flight.
func (m *Monitor) Run(ctx context.Context) {
	for ctx.Err() == nil {
		reached, done := m.Reach.While(ctx)
		m.run(reached)
		done()
	}
}

func (m *Monitor) run(ctx context.Context) {
	with := *m
	with.Poll = cmp.Or(m.Poll, defaultPoll)
	with.Visits = cmp.Or(m.Visits, defaultVisits)
	with.Slice = cmp.Or(m.Slice, defaultSlice)
	with.Pages = cmp.Or(m.Pages, defaultPages)
	r := &round{Monitor: &with, visiting: map[uuid.UUID]visiting{}, done: make(chan struct{}, 1)}
	defer r.visits.Wait()
	hold := time.NewTicker(holdInterval)
	defer hold.Stop()
	for pause := with.Poll; ; {
		if err := r.start(ctx); err == nil {
			pause = with.Poll
		} else if ctx.Err() == nil {
			m.Log.Warn("due sources unreadable, retrying", "pause", pause, "error", err)
			pause = min(2*pause, longestPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-hold.C:
			r.hold(ctx)
		case <-r.done: // there is room again
		case <-time.After(untilMultiple(pause)):
		}
	}
}

// untilMultiple returns the time until the next multiple of a duration. Periodic work of several loops coincides that
// way, which saves wake-ups.
func untilMultiple(of time.Duration) time.Duration {
	now := time.Now()
	return now.Truncate(of).Add(of).Sub(now)
}

// round tracks the visits in flight.
type round struct {
	*Monitor

	visits sync.WaitGroup
	done   chan struct{}

	mu       sync.Mutex
	visiting map[uuid.UUID]visiting // by holder
}

type visiting struct {
	host   string
	cancel context.CancelCauseFunc
}

// start starts a visit of each source that is due, as far as there is room.
func (r *round) start(ctx context.Context) error {
	holders, busy := r.inProgress()
	if len(holders) >= r.Visits {
		return nil
	}
	turns, err := r.Walks.Take(ctx, r.Visits-len(holders), busy)
	if err != nil {
		return err
	}
	for _, turn := range turns {
		visiting, cancel := context.WithCancelCause(ctx)
		r.add(turn, cancel)
		r.visits.Go(panics.Func("visit", func() {
			defer cancel(nil)
			defer r.remove(turn)
			r.newVisit(turn).run(visiting)
		}))
	}
	return nil
}

// hold renews the turns of the visits in flight, and ends visits without a turn.
func (r *round) hold(ctx context.Context) {
	holders, _ := r.inProgress()
	if len(holders) == 0 {
		return
	}
	lost, err := r.Walks.Hold(ctx, holders)
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("renewing turns failed", "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, holder := range lost {
		if v, ok := r.visiting[holder]; ok {
			v.cancel(ErrLost)
		}
	}
}

func (r *round) inProgress() (holders []uuid.UUID, hosts []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for holder, v := range r.visiting {
		holders, hosts = append(holders, holder), append(hosts, v.host)
	}
	return holders, hosts
}

func (r *round) add(turn Turn, cancel context.CancelCauseFunc) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.visiting[turn.Holder] = visiting{turn.Host, cancel}
}

func (r *round) remove(turn Turn) {
	r.mu.Lock()
	delete(r.visiting, turn.Holder)
	r.mu.Unlock()
	select {
	case r.done <- struct{}{}:
	default:
	}
}
