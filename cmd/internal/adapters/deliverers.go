package adapters

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/projections/sessionlock"
)

const (
	// capacities is the channel of Postgres on which deliverers announce once a second how much room they have.
	capacities = "carillon_deliverers"
	// silentFor is how long a deliverer says nothing before nothing is handed over to it. Others take what it holds
	// later than that.
	silentFor = 3 * time.Second
	// refusedFor is how long nothing is handed over for a destination that a deliverer had no room for: it is claimed.
	refusedFor = 2 * time.Second
)

// Deliverers are the deliverers of all processes. They are handed what a dispatcher records as theirs: the one of its
// own process first, as far as it has room, and else one that a hash of the destination chooses of those that do, so
// that connections and the order of a destination stay in one process.
type Deliverers struct {
	Locks *sessionlock.Locks
	Here  sending.Handoff // nil: this process does not deliver
	// LeasedUntil is until when a worker holds what is handed over to it now.
	LeasedUntil func() time.Time

	mu      sync.Mutex
	known   map[int32]*capacity
	refused map[uuid.UUID]time.Time
	changed chan struct{} // closed at the next announcement
}

// capacity holds the room that a deliverer has announced, less what it was handed since.
type capacity struct {
	fresh, claims int
	applied       eventstore.Position // zero: it reads what it needs from the streams
	heard         time.Time
}

var _ sending.Handoff = (*Deliverers)(nil)

// Listen receives the announcements of deliverers, until the context ends.
func (d *Deliverers) Listen(ctx context.Context) { d.Locks.Listen(ctx, capacities, d.hear) }

// announcement encodes the room of a worker.
func announcement(worker int32, c sending.Capacity) string {
	refused := make([]byte, 0, 16*len(c.Refused))
	for _, id := range c.Refused {
		refused = append(refused, id[:]...)
	}
	encoded := cmp.Or(base64.RawStdEncoding.EncodeToString(refused), "-")
	return fmt.Sprint(worker, " ", c.Fresh, " ", c.Claims, " ", encoded, " ", c.Applied.Commit, " ", c.Applied.Prepare)
}

func (d *Deliverers) hear(payload string) {
	var (
		worker  int32
		encoded string
		now     = time.Now()
		c       = capacity{heard: now}
	)
	n, _ := fmt.Sscan(payload, &worker, &c.fresh, &c.claims, &encoded, &c.applied.Commit, &c.applied.Prepare)
	if n < 3 {
		return // of another version
	}
	refused, err := base64.RawStdEncoding.DecodeString(encoded)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.known == nil {
		d.known, d.refused = map[int32]*capacity{}, map[uuid.UUID]time.Time{}
	}
	d.known[worker] = &c
	for id, other := range d.known {
		if now.Sub(other.heard) > silentFor {
			delete(d.known, id)
		}
	}
	for id, at := range d.refused {
		if now.Sub(at) > refusedFor {
			delete(d.refused, id)
		}
	}
	for ; err == nil && len(refused) >= 16; refused = refused[16:] {
		d.refused[uuid.UUID(refused[:16])] = now
	}
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

// Applied waits until each deliverer that is alive has applied the event at a position: requests that begin from then
// on are decided, addressed and signed by it. It reports false when the context ended first.
func (d *Deliverers) Applied(ctx context.Context, to eventstore.Position) bool {
	for {
		changed, applied := d.behind(to)
		if applied {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		}
	}
}

// behind reports whether all have applied the event at a position; else changed closes at the next announcement.
func (d *Deliverers) behind(to eventstore.Position) (changed <-chan struct{}, applied bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	applied = true
	for _, c := range d.known {
		if c.applied != eventstore.Start && c.applied.Before(to) && time.Since(c.heard) <= silentFor {
			applied = false
		}
	}
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return d.changed, applied
}

// Lease implements sending.Handoff.
func (d *Deliverers) Lease(fresh *schedule.Delivery) (worker int32) {
	if d.Here != nil {
		if worker = d.Here.Lease(fresh); worker != 0 {
			return worker
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if at, is := d.refused[fresh.Destination]; is && time.Since(at) <= refusedFor {
		return 0
	}
	weight := 1 + fresh.Size/schedule.SmallBody
	worker = d.first(fresh.Destination[:], func(c *capacity) bool { return c.fresh >= weight })
	if worker != 0 {
		d.known[worker].fresh -= weight
		fresh.LeasedUntil = d.LeasedUntil()
	}
	return worker
}

// Offer implements sending.Handoff: deliverers elsewhere read what is recorded as theirs.
func (d *Deliverers) Offer(recorded []*schedule.Delivery) {
	if d.Here != nil {
		d.Here.Offer(recorded)
	}
}

// Withdraw implements sending.Handoff: what deliverers elsewhere have left they announce.
func (d *Deliverers) Withdraw(leased []*schedule.Delivery) {
	if d.Here != nil {
		d.Here.Withdraw(leased)
	}
}

// Searches reports whether the search for due deliveries that begins at a time is a worker's: that of one of
// those that have room. All processes find the same one if they received the same announcements.
func (d *Deliverers) Searches(worker int32, begins time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	search := binary.BigEndian.AppendUint64(nil, uint64(begins.UnixMicro())) //nolint:gosec // any bits will do
	first := d.first(search, func(c *capacity) bool { return c.claims > 0 })
	return first == 0 || first == worker
}

// first returns the worker that a hash puts first of those that will do, and 0 if none does. The mutex is held.
func (d *Deliverers) first(of []byte, will func(*capacity) bool) (worker int32) {
	now, most := time.Now(), uint64(0)
	for id, c := range d.known {
		if now.Sub(c.heard) > silentFor || !will(c) {
			continue
		}
		h := fnv.New64a()
		_, _ = h.Write(binary.BigEndian.AppendUint32(nil, uint32(id))) //nolint:gosec // all bits stay
		_, _ = h.Write(of)
		if sum := h.Sum64(); worker == 0 || sum > most {
			worker, most = id, sum
		}
	}
	return worker
}
