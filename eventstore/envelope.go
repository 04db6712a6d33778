package eventstore

import (
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"
)

// Position is a place in the global order ($all). The zero Position is before the first event.
type Position struct{ Commit, Prepare uint64 }

// Start is the position before the first event.
var Start Position

// Before reports whether p comes before q in the global order.
func (p Position) Before(q Position) bool {
	return p.Commit < q.Commit || p.Commit == q.Commit && p.Prepare < q.Prepare
}

// String renders p as "commit/prepare".
func (p Position) String() string {
	return strconv.FormatUint(p.Commit, 10) + "/" + strconv.FormatUint(p.Prepare, 10)
}

// EventID derives the id of a command's i-th event.
func EventID(commandID uuid.UUID, i int) uuid.UUID {
	return uuid.NewSHA1(commandID, strconv.AppendInt(nil, int64(i), 10))
}

// Revision is the number of a stream's last event, counted from 0. As an expectation it is always explicit: the zero
// value means "exactly one event so far", never "unchecked".
type Revision int64

// NoStream is the revision of a stream without events.
const NoStream Revision = -1

// Proposed is an event on its way into a stream.
type Proposed struct {
	ID       uuid.UUID // idempotency key: the same id at the same revision is stored once
	Type     string    // stored name, for example "destination.created.v1"
	Data     []byte    // JSON
	Metadata []byte    // JSON, see Metadata
}

// Recorded is a stored event.
type Recorded struct {
	ID       uuid.UUID
	Stream   string
	Revision Revision
	Position Position
	Type     string
	Data     []byte
	Metadata []byte
	Created  time.Time // when the store recorded it, UTC
}

// Category is the part of the stream name before the first "-".
func (r *Recorded) Category() string {
	category, _, _ := strings.Cut(r.Stream, "-")
	return category
}

// RecordedAt returns when the store recorded the event, as events and webhooks show times.
func (r *Recorded) RecordedAt() time.Time { return r.Created.UTC().Truncate(time.Microsecond) }

// StreamID is the uuid in the stream's name, or uuid.Nil if the stream is not one of an aggregate.
func (r *Recorded) StreamID() uuid.UUID {
	_, id, _ := strings.Cut(r.Stream, "-")
	parsed, err := uuid.Parse(id)
	if err != nil {
		return uuid.Nil
	}
	return parsed
}

// StreamName names the stream of an aggregate: "<category>-<uuid>".
func StreamName(category string, id uuid.UUID) string { return category + "-" + id.String() }

// Appended is the place of the last event of an append.
type Appended struct {
	Revision Revision
	Position Position
}
