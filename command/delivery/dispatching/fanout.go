package dispatching

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
)

// fanOut is one published event in flight into the store.
type fanOut struct {
	cause     uuid.UUID // the event that published it
	id        uuid.UUID
	publisher uuid.UUID // the organization whose turn it takes
	published publication.Published
	scheduled []dispatch.Scheduled
	at        time.Time
	fresh     bool // it may be handed over
	// The span of the publication, then of the dispatch. Empty if it is not traced.
	trace eventstore.Trace

	// The rest is of appends, and guarded by it.
	by       *publisher
	done     chan struct{} // closed when it is recorded whole; nil: only its own caller waits
	size     int
	recorded bool // its deliveries are
	// recordedAt is the position of the last of them; they may not be durable yet.
	recordedAt eventstore.Position
	older      []*fanOut // superseded fan-outs that are not recorded
	followers  []*fanOut // fan-outs that supersede this one once it is recorded
}

// Room that a fan-out takes while it waits, apart from data: about that much, and for each delivery.
const (
	fanOutBytes    = 600
	scheduledBytes = 200
)

func (f *fanOut) weight() int {
	return fanOutBytes + len(f.published.Subject) + len(f.published.Source) + len(f.published.Data) +
		scheduledBytes*len(f.scheduled)
}

// delivery is the id of one of its deliveries.
func (f *fanOut) delivery(s dispatch.Scheduled) uuid.UUID {
	return dispatch.DeliveryID(f.id, s.Destination)
}

// leave drops the data that only a handoff needs: the fan-out is left to be claimed.
func (f *fanOut) leave() {
	f.fresh, f.published.Data = false, nil
}

// record appends a fan-out, hands over leased deliveries, and ends those that it supersedes. done is false if that
// has to wait until they are recorded themselves: then it is called again.
func (d *Dispatcher) record(ctx context.Context, f *fanOut) (done bool, err error) {
	if !f.recorded {
		if err := d.dispatch(ctx, f); err != nil {
			return false, err
		}
		if !d.dispatched(f) {
			return false, nil
		}
	}
	return true, f.supersede(ctx, d.store)
}

// dispatch appends the deliveries, in chunks if they are many. They are sent before that is durable: after a crash the
// event is dispatched again, to the same deliveries.
func (d *Dispatcher) dispatch(ctx context.Context, f *fanOut) (err error) {
	ctx, end := d.traceDispatch(ctx, f)
	if end != nil {
		defer func() { end(err) }()
	}
	leased := d.lease(f)
	defer func() { d.withdraw(leased) }()
	summary := SummaryOf(f.published)
	known := &eventstore.Loaded[dispatch.State]{Revision: eventstore.NoStream} // most are new: try without reading
	for first := 0; first < len(f.scheduled); first += dispatch.MaxPerEvent {
		last := min(first+dispatch.MaxPerEvent, len(f.scheduled))
		out, err := dispatch.Aggregate.Execute(eventstore.Unsynced(ctx), d.store, f.id, dispatch.Schedule{
			DeliveriesScheduled: dispatch.DeliveriesScheduled{
				Publication: f.id,
				Event:       summary,
				Deliveries:  f.scheduled[first:last],
				At:          f.at,
			},
		}, dispatch.Options{
			CommandID: f.commandID(first),
			Metadata:  f.metadata(f.published.Organization),
			Known:     known,
		})
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			return nil // it was dispatched, and is retired
		}
		if err != nil {
			return fmt.Errorf("dispatch %s: %w", f.id, err)
		}
		known, f.recordedAt = &out.Loaded, out.Position
		d.offer(f, leased, out.State, first, last)
	}
	return nil
}

// SummaryOf returns what a dispatch keeps of an event.
func SummaryOf(p publication.Published) dispatch.Summary {
	return dispatch.Summary{
		Type:     p.Type,
		Source:   p.Source,
		Subject:  p.Subject,
		Time:     p.Time,
		FeedType: p.FeedType,
		FeedID:   p.FeedID,
	}
}

// lease asks for room right before the append, not when it was planned: leases begin now. It returns the deliveries
// that are leased, each at the place at which it is scheduled.
func (d *Dispatcher) lease(f *fanOut) (leased []*schedule.Delivery) {
	if !f.fresh {
		return nil
	}
	body := sending.NewBody(f.id, f.published, f.at)
	body.Trace = f.trace
	leased = make([]*schedule.Delivery, len(f.scheduled))
	for i := range f.scheduled {
		s := &f.scheduled[i]
		if !s.NotBefore.IsZero() || !d.enabled(s.Destination) { // since it was planned
			continue
		}
		fresh := body.Fresh(s)
		if worker := d.handoff.Lease(fresh); worker != 0 {
			leased[i], s.Worker, s.LeasedUntil = fresh, worker, fresh.LeasedUntil.UTC().Truncate(time.Microsecond)
		}
	}
	return leased
}

// offer hands over deliveries recorded as leased. If another process was faster, that one sends them.
func (d *Dispatcher) offer(f *fanOut, leased []*schedule.Delivery, recorded dispatch.State, first, last int) {
	var mine []*schedule.Delivery
	for i := first; i < min(last, len(leased)); i++ {
		if leased[i] != nil && recorded.Holds(f.scheduled[i]) {
			mine = append(mine, leased[i])
			leased[i] = nil
		}
	}
	if len(mine) > 0 {
		d.handoff.Offer(mine)
	}
}

// withdraw frees the room of what was leased and not handed over.
func (d *Dispatcher) withdraw(leased []*schedule.Delivery) {
	left := slices.DeleteFunc(leased, func(one *schedule.Delivery) bool { return one == nil })
	if len(left) > 0 {
		d.handoff.Withdraw(left)
	}
}

// commandID is derived, so that a try whose answer was lost appends nothing more. It includes the worker that holds
// the deliveries: of two processes that dispatch the same event at once, only one may take its own for recorded.
func (f *fanOut) commandID(first int) uuid.UUID {
	worker := uint32(f.scheduled[first].Worker) //nolint:gosec // all bits stay
	return eventstore.EventID(uuid.NewSHA1(f.id, binary.BigEndian.AppendUint32(nil, worker)), first)
}

func (f *fanOut) metadata(organization uuid.UUID) eventstore.Metadata {
	return eventstore.Metadata{
		Organization:  organization,
		CorrelationID: f.id,
		CausationID:   f.cause,
		Actor:         Name,
	}
}

// supersede ends the older deliveries that waited in the same debounce windows.
func (f *fanOut) supersede(ctx context.Context, store eventstore.Store) error {
	for _, s := range f.scheduled {
		if s.Supersedes == uuid.Nil {
			continue
		}
		if err := Supersede(ctx, store, s.Supersedes, f.delivery(s), f.at, f.metadata(s.Organization)); err != nil {
			return err
		}
	}
	return nil
}

// Supersede ends a delivery that waits, in favour of a newer one.
func Supersede(ctx context.Context, store eventstore.Store, older, newer uuid.UUID, at time.Time,
	metadata eventstore.Metadata) error {
	_, err := delivery.Aggregate.Execute(ctx, store, older, delivery.Supersede{By: newer, At: at},
		delivery.Options{CommandID: eventstore.EventID(newer, 0), Metadata: metadata})
	if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) { // it is retired
		return fmt.Errorf("supersede %s: %w", older, err)
	}
	return nil
}
