package visiting

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"strconv"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// maxUnreadable is the number of unreadable pages in a row after which a site counts as down.
const maxUnreadable = 5

// visit walks a source until its slice is over.
type visit struct {
	*Monitor

	turn  Turn
	walk  Walk
	tally Tally
	trace uuid.UUID // correlates what the walk records
	// outcome is the result of the visit, unless an error prevented one.
	outcome string
	log     *slog.Logger
}

func (m *Monitor) newVisit(turn Turn) *visit {
	v := &visit{
		Monitor: m,
		outcome: outcomeContinues,
		turn:    turn,
		walk:    m.Walks.Walk(turn),
		tally:   turn.Tally,
		log:     m.Log.With(slog.String("source", turn.Source.ID.String()), slog.String("type", turn.Source.Type)),
	}
	v.trace = uuid.NewSHA1(turn.Source.ID, []byte("visit "+strconv.Itoa(turn.Number)))
	return v
}

// run makes the visit and reports its outcome.
func (v *visit) run(ctx context.Context) {
	var next Next
	err := panics.Catch("visit", func() (err error) {
		next, err = v.visit(ctx)
		return err
	})
	if v.Visited != nil {
		v.Visited(v.turn.Source.Type, v.outcomeOf(ctx, err))
	}
	switch {
	case errors.Is(err, ErrLost), errors.Is(context.Cause(ctx), ErrLost):
		v.log.Warn("turn lost, another process continues the walk")
		return
	case errors.Is(err, source.ErrNumber): // later walks are recorded: the memory of them was lost, or the turn is
		next = v.continueLater(pauseAfterTrouble)
		next.Over = true
	case ctx.Err() != nil: // stopped: another process continues at once
		ctx = context.WithoutCancel(ctx)
		next = v.continueLater(0)
	case errors.Is(err, ErrPaused): // the walk continues when the source is resumed
		v.log.Info("visit ended, source paused")
		next = v.continueLater(0)
	case err != nil:
		v.log.Warn("visit not recorded, it will be repeated", "error", err)
		next = v.continueLater(pauseAfterTrouble)
	default:
		v.log.Debug("visited", "walk", v.turn.Number, "over", next.Over, "requests", v.tally.Requests,
			"new", v.tally.New, "revised", v.tally.Revised, "wentStale", v.tally.WentStale)
	}
	leaving, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	if err := v.walk.Leave(leaving, next); err != nil && !errors.Is(err, ErrLost) {
		v.log.Warn("end of visit not stored, source pauses for a minute", "error", err)
	}
}

const (
	// pauseAfterTrouble follows errors of this server, such as an unreachable event store.
	pauseAfterTrouble = 5 * time.Second
	// leaveTimeout limits the work while the process stops.
	leaveTimeout = 2 * time.Second
	// restPause is the pause of a source whose host named none.
	restPause = time.Minute
)

// continueLater continues the walk later.
func (v *visit) continueLater(in time.Duration) Next {
	return Next{
		In:               in,
		Interval:         v.turn.Interval,
		Failures:         v.turn.Failures,
		UnreadableInARow: v.turn.UnreadableInARow,
	}
}

func (v *visit) visit(ctx context.Context) (Next, error) {
	collector := v.collector()
	if err := v.begin(ctx, collector.Start(v.turn.Source)); err != nil {
		return Next{}, err
	}
	if err := v.settle(ctx); err != nil { // the rest of an interrupted visit
		return Next{}, err
	}
	next, ended, err := v.pages(ctx, collector)
	if ended || err != nil {
		return next, err
	}
	if err := v.walk.Conclude(ctx); err != nil {
		return Next{}, err
	}
	if err := v.settle(ctx); err != nil {
		return Next{}, err
	}
	return v.complete(ctx)
}

// begin begins the walk unless it has begun, and records that if the walk was requested. If the memory of walks was
// lost or the read model is behind, a walk of that number is recorded already, and this one gets a later number.
func (v *visit) begin(ctx context.Context, start []collect.Link) error {
	for {
		if v.turn.Fresh {
			if err := v.walk.Begin(ctx, start); err != nil {
				return err
			}
		}
		if !v.turn.Wanted {
			return nil
		}
		recorded, err := v.execute(ctx, source.Start{Number: v.turn.Number, At: v.now()})
		if err != nil || recorded || !v.turn.Fresh {
			return err
		}
		v.turn.Number = v.turn.Recorded.State.Started + 1
		v.walk = v.Walks.Walk(v.turn)
	}
}

// pages reads the pages ahead. ended reports that the visit has ended before the last of them.
func (v *visit) pages(ctx context.Context, collector collect.Collector) (next Next, ended bool, err error) {
	began := v.now()
	for visited, err := range collect.Walk(ctx, collector, v.turn.Source, v.walk) {
		if err != nil {
			next, err := v.stopped(ctx, visited, err)
			return next, true, err
		}
		if err := v.page(ctx, visited); err != nil {
			return Next{}, true, err
		}
		if visited.Err != nil && (visited.Known.Root || v.turn.UnreadableInARow >= maxUnreadable) {
			next, err := v.failed(ctx, visited)
			return next, true, err
		}
		if v.now().Sub(began) >= v.Slice || v.tally.Requests-v.turn.Tally.Requests >= v.Pages {
			return v.continueLater(0), true, nil
		}
	}
	return Next{}, false, nil
}

// page records one page and its observations.
func (v *visit) page(ctx context.Context, visited collect.Visited) error {
	letGo := v.Backlog.hold(len(visited.Page.Observations))
	defer letGo()
	if visited.Err == nil {
		v.turn.UnreadableInARow, v.turn.Failures = 0, 0
		v.tally.Requests += visited.Page.Requests
		if !visited.Page.Unchanged {
			v.tally.Read++
		}
	} else {
		v.tally.Requests++
		v.complainOfPage(visited)
		if !collect.Gone(visited.Err) {
			v.turn.UnreadableInARow++
			visited.Page.Notes.Add(collect.NotePageFailed, "%s", clip(visited.Err.Error()))
		}
	}
	if visited.Page.Notes.Has(collect.NoteNeedsJavaScript) {
		visited.Page.State = nil // the next read decides whether it still does
	}
	sightings, err := v.identify(ctx, &visited)
	if err != nil {
		return err
	}
	if err := v.walk.Record(ctx, visited, sightings, v.tally); err != nil {
		return err
	}
	return v.settle(ctx)
}

func (v *visit) complainOfPage(visited collect.Visited) {
	if errors.Is(visited.Err, collect.ErrPanicked) {
		v.log.Error("page not read", "error", visited.Err)
		return
	}
	v.log.Debug("page unreadable", "error", visited.Err)
}

// complete ends a walk that has completed.
func (v *visit) complete(ctx context.Context) (Next, error) {
	result, err := v.walk.Result(ctx)
	if err != nil {
		return Next{}, err
	}
	for _, note := range result.Notes {
		if result.Empty && note.Code == string(collect.NoteNeedsJavaScript) {
			return v.needsJavaScript(ctx, note.Text)
		}
	}
	v.outcome = outcomeOK
	interval := source.Adapt(v.turn.Interval, v.tally.Ahead)
	next := Next{
		In:        v.spread(interval),
		Over:      true,
		Completed: true,
		Interval:  interval,
		Observed:  result.Observed,
	}
	return next, v.onSource(ctx, source.Complete{
		Number: v.turn.Number,
		Counts: source.Counts{
			Pages:     v.tally.Requests,
			Observed:  result.Observed,
			New:       v.tally.New,
			Revised:   v.tally.Revised,
			WentStale: v.tally.WentStale,
		},
		NotModified: v.tally.Read == 0,
		Notes:       append(result.Notes, v.tally.Notes...),
		Interval:    interval,
		NextAt:      v.now().Add(next.In),
		At:          v.now(),
	})
}

// onSource executes a command on the source. Mostly nothing changes, which the known state shows without reading.
func (v *visit) onSource(ctx context.Context, command source.Command) error {
	_, err := v.execute(ctx, command)
	return err
}

// execute reports whether the command recorded an event.
func (v *visit) execute(ctx context.Context, command source.Command) (recorded bool, err error) {
	known := v.turn.Recorded
	out, err := source.Aggregate.Execute(ctx, v.Store, v.turn.Source.ID, command, source.Options{Metadata: v.metadata(),
		Known: &known})
	if err != nil {
		return false, fmt.Errorf("source %s: %w", v.turn.Source.ID, err)
	}
	v.turn.Recorded = out.Loaded
	return len(out.Events) > 0, nil
}

func (v *visit) metadata() eventstore.Metadata {
	return eventstore.Metadata{CorrelationID: v.trace, CausationID: v.trace, Actor: MonitorName}
}

// spread returns an interval shifted by the source's place in the tolerance of its schedule.
func (v *visit) spread(interval time.Duration) time.Duration {
	h := fnv.New32a()
	_, _ = h.Write(v.trace[:])
	return source.Spread(interval, float64(h.Sum32())/math.MaxUint32)
}
