package delivery

import (
	"context"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// DispatcherName is the dispatcher's name as consumer and as actor.
const DispatcherName = "dispatcher"

// Dispatcher is the process manager that turns each published event into the deliveries of its fan-out. It plans in
// the order of all events, and appends in the background, with the publishing organizations in turn.
type Dispatcher struct {
	eventstore.ProcessState
	*appends

	// Tracer follows traced publications. Optional.
	Tracer Tracer

	store   eventstore.Store
	handoff Handoff
	routes  *Routes
	newest  time.Time    // when the newest event was recorded
	mu      sync.RWMutex // guards the targets of routes, which appending goroutines read
}

var (
	_ eventstore.Deferring  = (*Dispatcher)(nil)
	_ eventstore.Comparable = (*Dispatcher)(nil)
)

// NewDispatcher makes a dispatcher; each run of it wants a fresh one.
func NewDispatcher(store eventstore.Store, handoff Handoff) *Dispatcher {
	d := &Dispatcher{store: store, handoff: handoff}
	d.routes = NewRoutes(&d.ProcessState)
	d.appends = newAppends(d.record)
	return d
}

// Name implements eventstore.ProcessManager.
func (*Dispatcher) Name() string { return DispatcherName }

// Version implements eventstore.ProcessManager.
func (*Dispatcher) Version() int { return 1 }

// Filter implements eventstore.ProcessManager.
func (*Dispatcher) Filter() eventstore.Filter {
	return eventstore.Categories(publication.Aggregate.Category, feed.Aggregate.Category,
		destination.Aggregate.Category, subscription.Aggregate.Category)
}

// Folds implements eventstore.Comparable.
func (*Dispatcher) Folds() eventstore.Filter { return routeEvents() }

// Fold implements eventstore.Comparable.
func (d *Dispatcher) Fold(recorded *eventstore.Recorded) error { return d.apply(recorded) }

// Folded implements eventstore.Comparable.
func (d *Dispatcher) Folded() ([]eventstore.SavedRow, error) { return d.Rows(routeKinds...) }

// Changed implements eventstore.ProcessManager.
func (d *Dispatcher) Changed() ([]eventstore.SavedRow, error) {
	d.routes.dropClosedWindows(d.newest)
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
	at := recordedAt(recorded)
	scheduled := d.routes.Dispatch(id, p, at)
	if len(scheduled) == 0 {
		return nil
	}
	f := &fanOut{
		cause:     recorded.ID,
		id:        id,
		publisher: d.routes.publisher(p),
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
