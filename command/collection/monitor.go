package collection

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
	"carillon/eventstore"
	"carillon/eventstore/reach"
)

// MonitorName is the monitor's name as actor.
const MonitorName = "monitor"

const (
	defaultPoll   = 500 * time.Millisecond
	defaultVisits = 512
	defaultSlice  = time.Minute
	defaultPages  = 500
	longestPause  = 5 * time.Second  // between two looks at the schedule while it can't be read
	holdInterval  = 20 * time.Second // between two signs of life, of which a turn wants one a minute
)

// Monitor walks sources when they are due. Any number of processes may run one.
//
// A visit that waits for its host's pace costs next to nothing, so there may be many of them: what is bounded is what
// they ask of the network, by the collectors' fetcher, and that each host has one visit at a time, by turns.
type Monitor struct {
	Store      eventstore.Store
	Now        func() time.Time
	Log        *slog.Logger
	Walks      Walks
	Collectors map[string]collect.Collector // by source type
	Poll       time.Duration                // between two looks for sources that are due; 0: half a second
	Visits     int                          // at one time; 0: 512
	Slice      time.Duration                // after which a visit gives way to others of its host; 0: a minute
	Pages      int                          // after which it does as well; 0: 500
	// Visited, if set, is told of each visit how it ended, one of [Outcomes].
	Visited func(sourceType, outcome string)
	// Found, if set, is told of each happening of which something else is on show than before: one of [Kinds].
	Found func(kind string)
	// Backlog, if set, is what the collectors wait for before they read a page.
	Backlog *Backlog
	// Reach ends all visits while the event store is unreachable, so that other processes make them. Optional.
	Reach *reach.Watch
}

func (m *Monitor) now() time.Time { return m.Now().UTC().Truncate(time.Microsecond) }

// Run visits sources until the context ends, and waits for the visits that are under way to stop.
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
			m.Log.Warn("can't read which sources are due, trying again", "pause", pause, "error", err)
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

// untilMultiple is how long it is to the next multiple of a time: what is done as often is done at the same moments, as
// to wake up costs more than what is done then.
func untilMultiple(of time.Duration) time.Duration {
	now := time.Now()
	return now.Truncate(of).Add(of).Sub(now)
}

// round keeps count of the visits under way.
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

// start begins a visit of each source that is due, as far as there is room.
func (r *round) start(ctx context.Context) error {
	holders, busy := r.underWay()
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
		r.visits.Go(func() {
			defer cancel(nil)
			defer r.remove(turn)
			r.newVisit(turn).run(visiting)
		})
	}
	return nil
}

// hold keeps the turns of the visits that are under way, and ends those that lost theirs.
func (r *round) hold(ctx context.Context) {
	holders, _ := r.underWay()
	if len(holders) == 0 {
		return
	}
	lost, err := r.Walks.Hold(ctx, holders)
	if err != nil && ctx.Err() == nil {
		r.Log.Warn("can't keep the turns at sources", "error", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, holder := range lost {
		if v, ok := r.visiting[holder]; ok {
			v.cancel(ErrLost)
		}
	}
}

func (r *round) underWay() (holders []uuid.UUID, hosts []string) {
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
