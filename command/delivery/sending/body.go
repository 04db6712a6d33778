package sending

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/publication"
	"carillon/command/delivery/schedule"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Body is the request body of an event, the same for all its deliveries; it is rendered once, and then without its
// data.
type Body struct {
	Event      uuid.UUID
	Published  publication.Published
	RecordedAt time.Time
	// Trace names the span of the dispatch that hands its deliveries over. Optional.
	Trace eventstore.Trace

	size int // of the data; 0 means that it is not counted

	once     sync.Once
	rendered []byte
	err      error
}

// NewBody makes the body of an event whose memory counts while its deliveries are in a deliverer.
func NewBody(event uuid.UUID, published publication.Published, recorded time.Time) *Body {
	return &Body{
		Event:      event,
		Published:  published,
		RecordedAt: recorded,
		size:       len(published.Data),
	}
}

// bodyOf returns the body of a delivery.
func bodyOf(of *schedule.Delivery) *Body { return of.Body.(*Body) } //nolint:forcetypeassert,errcheck // it has no other

// knownOf returns a delivery as the read model knows it, if it does: the status of a replay is in its stream.
func knownOf(of *schedule.Delivery) *eventstore.Loaded[delivery.State] {
	if of.Replay != uuid.Nil {
		return nil
	}
	return &eventstore.Loaded[delivery.State]{
		State:    delivery.State{Attempts: of.Attempts, Automatic: of.Automatic},
		Revision: eventstore.Revision(of.Revision),
	}
}

// Bytes renders the envelope.
func (b *Body) Bytes() ([]byte, error) {
	b.once.Do(func() {
		envelope := webhook.Envelope{
			ID:         b.Event.String(),
			Source:     b.Published.Source,
			Type:       b.Published.Type,
			Subject:    b.Published.Subject,
			Time:       b.Published.Time,
			RecordedAt: b.RecordedAt,
			FeedType:   b.Published.FeedType,
			Data:       b.Published.Data,
		}
		if b.Published.FeedID != uuid.Nil {
			envelope.FeedID = b.Published.FeedID.String()
		}
		if b.rendered, b.err = envelope.AppendJSON(nil); b.err == nil {
			b.Published.Data = nil // it is in there
		}
	})
	return b.rendered, b.err
}

// ErrNotReady: nothing may be claimed now, because this worker can't prove that it lives, or because the read model
// is behind the event store.
var ErrNotReady = errors.New("the queue is not ready for claims")

// Queue is the read model of deliveries as workers use it. Any number of workers on any number of nodes may.
type Queue interface {
	// Worker is this node's identity in leases; it is not known before the queue was reached once. Another node's
	// claims respect it while this node lives.
	Worker() (id int32, known bool)
	// Now is the time by the clock that leases are counted by.
	Now() time.Time
	// Holding reports whether others certainly respect this worker's leases, and how often that was lost before:
	// leases of then may have been taken over.
	Holding() (losses int, sure bool)
	// Recover releases forgotten leases of this worker, such as a claim whose answer was lost. It returns their
	// number. It fails with ErrNotReady while the read model is behind: then it is to be called again soon.
	Recover(ctx context.Context, lease time.Duration, known func(uuid.UUID) bool) (int, error)
	// Claim leases due deliveries of enabled destinations, and replays. It may fail with ErrNotReady.
	Claim(ctx context.Context, room schedule.Room, lease time.Duration) ([]*schedule.Delivery, error)
	// NextDue returns when the next unleased delivery is due, after the time of the last claim; that may be in the
	// past. false means none is planned.
	NextDue() (at time.Time, planned bool)
	// Rest lets all workers send nothing to a destination for a while.
	Rest(ctx context.Context, destination uuid.UUID, wait time.Duration) error
	// Resting returns for how long destinations are to be left alone, as the last claim saw it, also one that
	// failed with ErrNotReady. Nothing is claimed for them.
	Resting() map[uuid.UUID]time.Duration
	// Release ends leases at once.
	Release(ctx context.Context, ids []uuid.UUID) error
	// NotifyDue notifies all workers that a delivery became due now. It waits for nothing.
	NotifyDue()
	// Announce publishes this worker's room to all dispatchers. It waits for nothing.
	Announce(c Capacity)
}

// Vault seals the answers of receivers; sealing.Vault is one.
type Vault interface {
	Seal(ctx context.Context, destination uuid.UUID, field sealing.Field, plain []byte) ([]byte, error)
}

// Sender makes one request; webhook.Sender is one.
type Sender interface {
	Send(ctx context.Context, r webhook.Request) webhook.Result
}
