package delivery

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/publication"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// DispatcherName is the dispatcher's name as consumer and as actor.
const DispatcherName = "dispatcher"

// concurrentAppends bounds the dispatches that are on their way into the store at one time.
const concurrentAppends = 128

// Dispatcher is the process manager that turns each published event into the deliveries of its fan-out.
type Dispatcher struct {
	eventstore.ProcessState

	store   eventstore.Store
	handoff Handoff
	routes  *Routes
	newest  time.Time // when the newest event was recorded
}

var _ eventstore.ProcessManager = (*Dispatcher)(nil)

// Handoff takes fresh deliveries without a way round through Postgres; Deliverer is one. A nil Handoff takes none.
type Handoff interface {
	// Reserve asks for room for a delivery to a destination. The worker holds it until a time; ok is false when there
	// is no room, and the delivery will be claimed from the read model.
	Reserve(target *destination.Target) (worker int32, until time.Time, ok bool)
	// Submit hands over a reserved delivery once it is recorded.
	Submit(job Job)
	// Cancel gives back a reservation.
	Cancel(target *destination.Target)
	// Expect says that a delivery was recorded that is to be claimed from the read model.
	Expect()
}

// NewDispatcher makes a dispatcher; each run of it wants a fresh one.
func NewDispatcher(store eventstore.Store, handoff Handoff) *Dispatcher {
	d := &Dispatcher{store: store, handoff: handoff}
	d.routes = NewRoutes(&d.ProcessState)
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

// Changed implements eventstore.ProcessManager.
func (d *Dispatcher) Changed() ([]eventstore.SavedRow, error) {
	d.routes.dropClosedWindows(d.newest)
	return d.ProcessState.Changed()
}

// React implements eventstore.ProcessManager: it decides in order, then appends side by side. The last one is appended by
// whoever calls, who has to wait for it anyway: most batches are of one event, and a goroutine for that costs a switch
// there and back, and a stack that grows.
func (d *Dispatcher) React(ctx context.Context, batch []eventstore.Recorded) error {
	group, appending := errgroup.WithContext(ctx)
	group.SetLimit(concurrentAppends)
	var last error
	for i := range batch {
		recorded := &batch[i]
		d.newest = recorded.Created
		if recorded.Category() != publication.Aggregate.Category {
			if err := d.routes.Apply(recorded); err != nil {
				return errors.Join(err, group.Wait())
			}
			continue
		}
		event, err := publication.Events.Decode(recorded)
		if err != nil {
			return errors.Join(err, group.Wait())
		}
		switch e := event.(type) {
		case publication.Published:
			f := d.plan(recorded, recorded.StreamID(), e)
			switch {
			case f == nil: // nobody wants it
			case i == len(batch)-1:
				last = f.record(appending, d.store, d.handoff)
			default:
				group.Go(func() error { return f.record(appending, d.store, d.handoff) })
			}
		}
	}
	if err := group.Wait(); err != nil {
		return err // the last one may have been cut off by it
	}
	return last
}

// fanOut is one published event on its way into the store.
type fanOut struct {
	cause     *eventstore.Recorded
	id        uuid.UUID
	published publication.Published
	scheduled []dispatch.Scheduled
	targets   []*destination.Target // of the scheduled ones
	at        time.Time
}

func (d *Dispatcher) plan(recorded *eventstore.Recorded, id uuid.UUID, p publication.Published) *fanOut {
	at := recorded.Created.UTC().Truncate(time.Microsecond)
	scheduled := d.routes.Dispatch(id, p, at)
	if len(scheduled) == 0 {
		return nil
	}
	f := &fanOut{cause: recorded, id: id, published: p, scheduled: scheduled, targets: make([]*destination.Target, len(scheduled)), at: at}
	fresh := d.handoff != nil && !d.Replayed(recorded)
	for i := range scheduled {
		f.targets[i] = d.routes.Target(scheduled[i].Destination)
		// What may have been dispatched before a crash may also have been delivered: the read model knows.
		if !fresh || !scheduled[i].NotBefore.IsZero() {
			continue
		}
		if worker, until, ok := d.handoff.Reserve(f.targets[i]); ok {
			scheduled[i].Worker, scheduled[i].LeasedUntil = worker, until.UTC().Truncate(time.Microsecond)
		}
	}
	return f
}

// record appends the fan-out, in chunks where it is large, and hands over what was reserved.
func (f *fanOut) record(ctx context.Context, store eventstore.Store, handoff Handoff) error {
	summary := dispatch.Summary{
		Type: f.published.Type, Source: f.published.Source, Subject: f.published.Subject, Time: f.published.Time,
		FeedType: f.published.FeedType, FeedID: f.published.FeedID,
	}
	known := &eventstore.Loaded[dispatch.State]{Revision: eventstore.NoStream} // most are new: try without reading
	for first := 0; first < len(f.scheduled); first += dispatch.MaxPerEvent {
		last := min(first+dispatch.MaxPerEvent, len(f.scheduled))
		out, err := dispatch.Aggregate.Execute(ctx, store, f.id, dispatch.Schedule{
			DeliveriesScheduled: dispatch.DeliveriesScheduled{Publication: f.id, Event: summary, Deliveries: f.scheduled[first:last], At: f.at},
		}, dispatch.Options{
			CommandID: f.commandID(first),
			Metadata:  f.metadata(f.published.Organization),
			Known:     known,
		})
		if err != nil {
			f.cancel(handoff, first)
			return fmt.Errorf("dispatch %s: %w", f.id, err)
		}
		known = &out.Loaded
		f.submit(handoff, out.State, first, last)
	}
	return f.supersede(ctx, store)
}

// commandID is derived, so that a try whose answer was lost appends nothing more. It also says which worker holds the
// deliveries: of two processes that dispatch the same event at once, only one may take its own for recorded.
func (f *fanOut) commandID(first int) uuid.UUID {
	worker := f.scheduled[first].Worker
	return eventstore.EventID(uuid.NewSHA1(f.id, binary.BigEndian.AppendUint32(nil, uint32(worker))), first) //nolint:gosec // all bits stay
}

func (f *fanOut) metadata(organization uuid.UUID) eventstore.Metadata {
	return eventstore.Metadata{Organization: organization, CorrelationID: f.id, CausationID: f.cause.ID, Actor: DispatcherName}
}

// submit hands over what was recorded as this worker's. Where another process was faster, that one sends it.
func (f *fanOut) submit(handoff Handoff, recorded dispatch.State, first, last int) {
	body := &Body{Event: f.id, Published: f.published}
	queued := false
	for i := first; i < last; i++ {
		if f.scheduled[i].Worker == 0 {
			queued = true
			continue
		}
		if !recorded.Holds(f.scheduled[i]) {
			handoff.Cancel(f.targets[i])
			continue
		}
		handoff.Submit(Job{
			ID: dispatch.DeliveryID(f.id, f.scheduled[i].Destination), Target: f.targets[i], Body: body,
			Known:       &eventstore.Loaded[delivery.State]{Revision: eventstore.NoStream},
			LeasedUntil: f.scheduled[i].LeasedUntil,
		})
	}
	if queued && handoff != nil {
		handoff.Expect()
	}
}

func (f *fanOut) cancel(handoff Handoff, first int) {
	for i := first; i < len(f.scheduled); i++ {
		if f.scheduled[i].Worker != 0 {
			handoff.Cancel(f.targets[i])
		}
	}
}

// supersede ends the older deliveries that waited in the same debounce windows.
func (f *fanOut) supersede(ctx context.Context, store eventstore.Store) error {
	for _, s := range f.scheduled {
		if s.Supersedes == uuid.Nil {
			continue
		}
		newer := dispatch.DeliveryID(f.id, s.Destination)
		_, err := delivery.Aggregate.Execute(ctx, store, s.Supersedes,
			delivery.Supersede{By: newer, At: f.at},
			delivery.Options{CommandID: eventstore.EventID(newer, 0), Metadata: f.metadata(s.Organization)})
		if err != nil {
			return fmt.Errorf("supersede %s: %w", s.Supersedes, err)
		}
	}
	return nil
}
