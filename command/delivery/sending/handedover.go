package sending

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/command/delivery/schedule"
	"carillon/eventstore"
)

const (
	// The number of newest publications kept; their dispatches follow them closely.
	keptPublications     = 2048
	keptPublicationBytes = 4 << 20
	maxRefusals          = 100 // destinations that are named at one time
	// announceEvery is a little shorter than the beat of the session that it goes with.
	announceEvery = 900 * time.Millisecond
	// announceGrace is the time until dispatchers know that there is no room any more, and the lag of a reader.
	announceGrace = 100 * time.Millisecond
)

// Capacity is announced by a deliverer to the processes that dispatch.
type Capacity struct {
	Fresh   int         // deliveries that may be handed over, one for each 2 KiB of the event's data
	Claims  int         // deliveries that it may claim
	Refused []uuid.UUID // destinations refused since its last announcement
	// Applied is the position up to which it knows what may be sent. Zero means that it keeps nothing in memory.
	Applied eventstore.Position
}

// Capacity returns how much room there is for claims, and half of the room for fresh deliveries: an organization that
// is alone may use two thirds of it.
func (d *Deliverer) Capacity() (c Capacity) {
	d.init()
	d.mu.Lock()
	defer d.mu.Unlock()
	c.Applied = d.Facts.Applied()
	if d.ctx == nil || !d.restsKnown || !d.Facts.Ready() {
		return c
	}
	fresh, claims := d.schedule.Free()
	if c.Claims = claims; !d.following {
		return c
	}
	c.Fresh = fresh / 2
	for id := range d.refused {
		if len(c.Refused) < maxRefusals { // else it is refused again
			c.Refused = append(c.Refused, id)
		}
	}
	clear(d.refused)
	return c
}

// announceNow lets announce publish the capacity without delay.
func (d *Deliverer) announceNow() {
	select {
	case d.announces <- struct{}{}:
	default:
	}
}

// announce publishes how much room there is until the context ends, and then that there is none. Deliveries handed over
// before that arrives are still accepted.
func (d *Deliverer) announce(ctx context.Context) {
	tick := time.NewTicker(announceEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			d.Queue.Announce(d.Capacity())
			continue
		case <-d.announces:
			d.Queue.Announce(d.Capacity())
			continue
		case <-ctx.Done():
		}
		d.Queue.Announce(Capacity{})
		if d.Facts.Dispatches {
			<-time.After(announceGrace)
		}
		return
	}
}

// recentPublications keeps the newest ones as they are recorded.
type recentPublications struct {
	byID  map[uuid.UUID]*eventstore.Recorded
	order []*eventstore.Recorded // oldest first
	bytes int
}

func (p *recentPublications) add(recorded *eventstore.Recorded) {
	if p.byID == nil {
		p.byID = map[uuid.UUID]*eventstore.Recorded{}
	}
	p.byID[recorded.StreamID()] = recorded
	p.order = append(p.order, recorded)
	p.bytes += len(recorded.Data)
	for len(p.order) > keptPublications || p.bytes > keptPublicationBytes && len(p.order) > 1 {
		oldest := p.order[0]
		delete(p.byID, oldest.StreamID())
		p.order = p.order[1:]
		p.bytes -= len(oldest.Data)
	}
}

// body makes the body of a publication. A body no longer kept is read.
func (p *recentPublications) body(ctx context.Context, store eventstore.Store, id uuid.UUID) (*Body, error) {
	recorded := p.byID[id]
	if recorded == nil {
		for first, err := range store.Read(ctx, publication.Aggregate.Stream(id), 0) {
			if err != nil {
				return nil, err
			}
			recorded = &first
			break
		}
	}
	if recorded == nil {
		return nil, eventstore.ErrUnavailable
	}
	event, err := publication.Events.Decode(recorded)
	if err != nil {
		return nil, err
	}
	switch e := event.(type) {
	case publication.Published:
		return NewBody(id, e, recorded.RecordedAt()), nil
	}
	return nil, eventstore.ErrUnavailable
}

// dispatched accepts deliveries leased to this worker by the dispatcher of another process. An older lease is left
// alone: this process was stopped, or cut off, and others may have taken the delivery over. Recover releases it.
func (d *Deliverer) dispatched(ctx context.Context, recorded *eventstore.Recorded) {
	event, err := dispatch.Events.Decode(recorded)
	if err != nil {
		d.Log.Error("deliverer can't read a dispatch", "error", err)
		return // as for destinations
	}
	switch e := event.(type) {
	case dispatch.DeliveriesScheduled:
		worker, _ := d.Queue.Worker()
		notBefore := d.Queue.Now().Add(d.lease() - freshFor)
		mine := slices.DeleteFunc(e.Deliveries, func(s dispatch.Scheduled) bool {
			return s.Worker != worker || !s.LeasedUntil.After(notBefore)
		})
		if len(mine) == 0 {
			return
		}
		body, err := d.published.body(ctx, d.Store, e.Publication)
		if err != nil {
			d.Log.Warn("handed over deliveries go back to the queue", "event", e.Publication, "error", err)
			return
		}
		if d.Tracer != nil {
			body.Trace = recorded.Trace()
		}
		fresh := make([]*schedule.Delivery, len(mine))
		for i := range mine {
			fresh[i] = body.Fresh(&mine[i])
		}
		d.takeFresh(fresh, func(uuid.UUID) bool { return true })
	}
}

// Fresh returns a delivery of the body that nobody else has.
func (b *Body) Fresh(s *dispatch.Scheduled) *schedule.Delivery {
	return b.of(schedule.Delivery{
		ID:            dispatch.DeliveryID(b.Event, s.Destination),
		Destination:   s.Destination,
		Organization:  s.Organization,
		Subscriptions: s.Subscriptions,
		Revision:      int64(eventstore.NoStream),
		LeasedUntil:   s.LeasedUntil,
	})
}

// Claimed returns a delivery of the body that was claimed.
func (b *Body) Claimed(of schedule.Delivery) *schedule.Delivery {
	of.Claimed = true
	return b.of(of)
}

func (b *Body) of(d schedule.Delivery) *schedule.Delivery {
	d.Event, d.Feed, d.Size, d.Body = b.Event, b.Published.FeedID, b.size, b
	return &d
}
