package delivery

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/publication"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Job is one delivery that is to be sent now. Its destination is read when it is sent.
type Job struct {
	ID           uuid.UUID
	Destination  uuid.UUID
	Organization uuid.UUID
	Body         *Body
	// Subscriptions are those that it was made for. None: they are not known.
	Subscriptions []uuid.UUID

	Attempts    int                                // made so far
	Known       *eventstore.Loaded[delivery.State] // as the read model knows it, if it does; an old one only costs a read
	Replay      uuid.UUID                          // the requested replay, if that is why it is sent
	LeasedUntil time.Time                          // by the queue's clock
	Losses      int                                // of the worker's lock, before it was claimed or handed over

	fresh bool      // handed over by the dispatcher; its lease is recorded with it
	came  time.Time // when it was queued in memory
}

// Body is the request body of an event, the same for all its deliveries; it is rendered once, and then without its data.
type Body struct {
	Event      uuid.UUID
	Published  publication.Published
	RecordedAt time.Time

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

// Ask says what a claim may take.
type Ask struct {
	Limit          int           // deliveries in all
	PerDestination int           // deliveries of one destination
	Lease          time.Duration // for which they are held
	Full           []uuid.UUID   // destinations of which nothing is taken
	Slow           []uuid.UUID   // destinations of which PerSlow are taken
	PerSlow        int
	Over           []uuid.UUID       // organizations of which nothing is taken
	Bytes          int               // of data of all their events, each counted once; but one event whatever its size, and small ones
	BytesOf        map[uuid.UUID]int // the same of organizations for which it is another number
}

// ErrNotReady: nothing may be claimed now, because this worker can't show that it lives, or because the read model has
// yet to take in what was recorded.
var ErrNotReady = errors.New("the queue is not ready for claims")

// Queue is the read model of deliveries as workers use it. Any number of workers on any number of nodes may.
type Queue interface {
	// Worker is this node's identity in leases; it is not known before the queue was reached once. Another node's claims
	// respect it while this node lives.
	Worker() (id int32, known bool)
	// Now is the time by the clock that leases are counted by.
	Now() time.Time
	// Holding says whether others respect this worker's leases for sure, and how often that was lost before: what it held
	// then may have been taken over.
	Holding() (losses int, sure bool)
	// Recover gives back what this worker holds without knowing of it, such as a claim whose answer was lost. It returns how
	// many that were.
	Recover(ctx context.Context, lease time.Duration, known func(uuid.UUID) bool) (int, error)
	// Claim leases due deliveries of enabled destinations, and replays. It may fail with ErrNotReady.
	Claim(ctx context.Context, ask Ask) ([]Job, error)
	// NextDue is when the next delivery is due that nobody holds, of those that were not when the last claim looked; it may
	// be over by now. false: none is planned.
	NextDue() (at time.Time, planned bool)
	// Rest lets all workers send nothing to a destination for a while.
	Rest(ctx context.Context, destination uuid.UUID, wait time.Duration) error
	// Resting returns for how long destinations are to be left alone, as the last claim saw it, also one that failed with
	// ErrNotReady. Nothing is claimed for them.
	Resting() map[uuid.UUID]time.Duration
	// Release gives leases back at once.
	Release(ctx context.Context, ids []uuid.UUID) error
}

// Vault opens secrets and headers and seals response bodies; sealing.Vault is one.
type Vault interface {
	Open(ctx context.Context, destination uuid.UUID, field sealing.Field, sealed []byte) ([]byte, error)
	Seal(ctx context.Context, destination uuid.UUID, field sealing.Field, plain []byte) ([]byte, error)
}

// Sender makes one request; webhook.Sender is one.
type Sender interface {
	Send(ctx context.Context, r webhook.Request) webhook.Result
}
