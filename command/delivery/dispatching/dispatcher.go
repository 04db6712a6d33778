package dispatching

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/command/delivery/routing"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
)

// Name is the dispatcher's name as consumer and as actor.
const Name = "dispatcher"

// Dispatcher is the process manager that turns each published event into the deliveries of its fan-out. It plans in
// the order of all events, and appends in the background, with the publishing organizations in turn.
type Dispatcher struct {
	eventstore.ProcessState
	*appends

	// Tracer follows traced publications. Optional.
	Tracer Tracer

	store   eventstore.Store
	handoff sending.Handoff
	routes  *routing.Routes
	newest  time.Time    // when the newest event was recorded
	mu      sync.RWMutex // guards the targets of routes, which appending goroutines read
}

// New makes a dispatcher; each run of it wants a fresh one.
func New(store eventstore.Store, handoff sending.Handoff) *Dispatcher {
	d := &Dispatcher{store: store, handoff: handoff}
	d.routes = routing.New(&d.ProcessState)
	d.appends = newAppends(store, d.record)
	return d
}

// Traits implements eventstore.ProcessManager.
func (d *Dispatcher) Traits() eventstore.Traits {
	return eventstore.Traits{
		Name:    Name,
		Version: 1,
		Filter: eventstore.Categories(publication.Aggregate.Category, feed.Aggregate.Category,
			destination.Aggregate.Category, subscription.Aggregate.Category),
		Folded: &eventstore.Folded{
			Filter: routing.Events(),
			Fold:   d.apply,
			Rows:   func() ([]eventstore.SavedRow, error) { return d.Rows(routing.Kinds...) },
		},
		Deferred: d.appends,
	}
}

// Changed implements eventstore.ProcessManager.
func (d *Dispatcher) Changed() ([]eventstore.SavedRow, error) {
	d.routes.DropClosedDebounces(d.newest)
	return d.ProcessState.Changed()
}

// React implements eventstore.ProcessManager: it decides in order. Under little load the caller appends the last
// one itself: most batches are of one event, and a goroutine for that costs two switches and a growing stack.
func (d *Dispatcher) React(ctx context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		recorded := &batch[i]
		d.newest = recorded.Created
		if recorded.Category() != publication.Aggregate.Category {
			if err := d.apply(recorded); err != nil {
				return err
			}
			continue
		}
		event, err := publication.Events.Decode(recorded)
		if err != nil {
			return err
		}
		switch e := event.(type) {
		case publication.Published:
			f := d.plan(recorded, recorded.StreamID(), e)
			switch {
			case f == nil: // no receivers
			case i == len(batch)-1 && d.idle(f):
				if _, err := d.record(ctx, f); err != nil {
					return err
				}
			default:
				if err := d.add(ctx, f); err != nil {
					return err
				}
			}
		}
	}
	return d.Err()
}

// apply folds an event that changes the routes.
func (d *Dispatcher) apply(recorded *eventstore.Recorded) error {
	if recorded.Category() == destination.Aggregate.Category {
		d.mu.Lock()
		defer d.mu.Unlock()
	}
	return d.routes.Apply(recorded)
}

// enabled reports whether a destination gets deliveries by now.
func (d *Dispatcher) enabled(id uuid.UUID) bool {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return d.routes.Enabled(id)
}

func (d *Dispatcher) plan(recorded *eventstore.Recorded, id uuid.UUID, p publication.Published) *fanOut {
	at := recorded.RecordedAt()
	scheduled := d.routes.Dispatch(id, p, at)
	if len(scheduled) == 0 {
		return nil
	}
	f := &fanOut{
		cause:     recorded.ID,
		id:        id,
		publisher: d.routes.Publisher(p),
		published: p,
		scheduled: scheduled,
		at:        at,
		// Deliveries dispatched before a crash may also have succeeded: the read model knows.
		fresh: d.handoff != nil && !d.Replayed(recorded),
	}
	if d.Tracer != nil {
		f.trace = recorded.Trace()
	}
	return f
}

// Tracer continues the trace of the request that published an event. The context of a span goes to the
// appends below it.
type Tracer interface {
	// Dispatch begins the span of a dispatch. own names it.
	Dispatch(ctx context.Context, cause eventstore.Trace, eventType string, deliveries int) (
		_ context.Context, own eventstore.Trace, end func(error))
}

// traceDispatch begins the span of a fan-out, if its publication is traced. end may be nil.
func (d *Dispatcher) traceDispatch(ctx context.Context, f *fanOut) (_ context.Context, end func(error)) {
	if d.Tracer == nil || f.trace == (eventstore.Trace{}) {
		return ctx, nil
	}
	ctx, f.trace, end = d.Tracer.Dispatch(ctx, f.trace, f.published.Type, len(f.scheduled))
	return ctx, end
}
