package collection

import (
	"context"
	"errors"
	"log/slog"
	"runtime/debug"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
)

// MonitorName is the monitor's name as actor.
const MonitorName = "monitor"

const (
	defaultPoll     = 250 * time.Millisecond
	defaultParallel = 4
	longestVisit    = 10 * time.Minute
	longestPause    = 5 * time.Second // between two looks at the schedule while it can't be read
)

// Due is a source whose collection is due.
type Due struct {
	Source      collect.Source
	Cursor      collect.State
	Collections int  // started so far
	Collecting  bool // the last of them was not seen to end
}

// Shown is what is known of a happening at a source.
type Shown struct {
	Digest []byte // see happening.Digest
	Stale  bool   // no longer on show
}

// Schedule tells when sources are due, and what they showed when they were last visited.
type Schedule interface {
	// Due lists sources that are due at a time, the longest due first.
	Due(ctx context.Context, now time.Time, limit int) ([]Due, error)
	// Shown tells by happening. It may lag behind: what it says saves work and decides nothing.
	Shown(ctx context.Context, source uuid.UUID) (map[uuid.UUID]Shown, error)
}

// Locks keep two processes from visiting a source at the same time.
type Locks interface {
	// TryLock takes the lock of a source, unless somebody holds it. It is lost with the process at the latest.
	TryLock(ctx context.Context, source uuid.UUID) (unlock func(), locked bool, err error)
}

// Monitor visits sources when they are due. Any number of processes may run one.
type Monitor struct {
	Recorder
	Schedule   Schedule
	Locks      Locks
	Collectors map[string]collect.Collector // by source type
	Poll       time.Duration                // between two looks at the schedule; 0: a quarter of a second
	Parallel   int                          // visits at one time; 0: four
}

// Run visits sources until the context ends, and waits for the visits that are under way to stop.
func (m *Monitor) Run(ctx context.Context) {
	poll, parallel := m.Poll, m.Parallel
	if poll == 0 {
		poll = defaultPoll
	}
	if parallel == 0 {
		parallel = defaultParallel
	}
	r := &round{Monitor: m, free: parallel, visiting: map[uuid.UUID]struct{}{}, done: make(chan struct{}, 1)}
	defer r.visits.Wait()
	for pause := poll; ; {
		if err := r.start(ctx); err == nil {
			pause = poll
		} else if ctx.Err() == nil {
			m.Log.Warn("can't read which sources are due, trying again", "pause", pause, "error", err)
			pause = min(2*pause, longestPause)
		}
		select {
		case <-ctx.Done():
			return
		case <-r.done: // there is room again
		case <-time.After(pause):
		}
	}
}

// round keeps count of the visits under way.
type round struct {
	*Monitor
	visits sync.WaitGroup
	done   chan struct{}

	mu       sync.Mutex
	free     int
	visiting map[uuid.UUID]struct{}
}

// start begins a visit of each source that is due, as far as there is room.
func (r *round) start(ctx context.Context) error {
	r.mu.Lock()
	free, busy := r.free, len(r.visiting)
	r.mu.Unlock()
	if free == 0 {
		return nil
	}
	due, err := r.Schedule.Due(ctx, r.now(), free+busy)
	if err != nil {
		return err
	}
	for _, d := range due {
		if !r.take(d.Source.ID) {
			continue
		}
		unlock, locked, err := r.Locks.TryLock(ctx, d.Source.ID)
		if err != nil || !locked {
			r.give(d.Source.ID)
			if err != nil {
				return err
			}
			continue
		}
		r.visits.Go(func() {
			defer r.give(d.Source.ID)
			defer unlock()
			r.visit(ctx, d)
		})
	}
	return nil
}

func (r *round) take(source uuid.UUID) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, already := r.visiting[source]; already || r.free == 0 {
		return false
	}
	r.visiting[source] = struct{}{}
	r.free--
	return true
}

func (r *round) give(source uuid.UUID) {
	r.mu.Lock()
	delete(r.visiting, source)
	r.free++
	r.mu.Unlock()
	select {
	case r.done <- struct{}{}:
	default:
	}
}

// visit collects from one source and records how it went.
func (m *Monitor) visit(ctx context.Context, due Due) {
	log := m.Log.With(slog.String("source", due.Source.ID.String()), slog.String("type", due.Source.Type))
	visit, err := m.begin(ctx, due)
	if err != nil || visit == nil {
		m.complain(ctx, log, err)
		return
	}
	visiting, cancel := context.WithTimeout(ctx, longestVisit)
	defer cancel()
	found, err := m.collect(visiting, due)
	if ctx.Err() != nil {
		return // the visit is due again soon, see the schedule
	}
	if errors.Is(err, collect.ErrUnavailable) {
		m.complain(ctx, log, err)
		return
	}
	if err != nil {
		if p := (*collect.PanicError)(nil); errors.As(err, &p) {
			log.Error("a reader panicked", "page", p.Place, "panic", p.Value, "stack", string(p.Stack))
		}
		log.Info("collection failed", "error", err)
		m.complain(ctx, log, visit.fail(ctx, err))
		return
	}
	var shown map[uuid.UUID]Shown
	if !found.NotModified {
		if shown, err = m.Schedule.Shown(ctx, due.Source.ID); err != nil {
			m.complain(ctx, log, err)
			return
		}
	}
	counts, err := visit.record(ctx, found, shown)
	m.complain(ctx, log, err)
	if err == nil {
		log.Debug("collected", "counts", counts, "notModified", found.NotModified)
	}
}

// collect calls the collector. What it reads was written by strangers: a mistake of ours that a page brings to light is
// a failure of that source, not of the process.
func (m *Monitor) collect(ctx context.Context, due Due) (found result, err error) {
	collector := m.Collectors[due.Source.Type]
	if collector == nil {
		return result{}, errNoCollector
	}
	defer func() {
		if p := recover(); p != nil {
			m.Log.Error("collector panicked", "source", due.Source.ID, "panic", p, "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	return gather(ctx, collector, due.Source, due.Cursor, m.now())
}

func (m *Monitor) complain(ctx context.Context, log *slog.Logger, err error) {
	if err != nil && ctx.Err() == nil {
		log.Warn("collection could not be recorded, it will be repeated", "error", err)
	}
}
