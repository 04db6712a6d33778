package eventstore

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"
)

// OriginalCreated is the property of an event's metadata in which a copy keeps when the event was first recorded, as
// RFC 3339: no server lets a client choose that time. Replicators of EventStoreDB use the same name.
const OriginalCreated = "$originalCreatedDate"

// Filler is the type of the events that a copy has in place of those which its source no longer had. Metadata hides
// them from readers of their stream, and subscriptions pass over them.
const Filler = "carillon.filler.v1"

var originalCreatedKey = []byte(`"` + OriginalCreated + `"`)

// FirstCreated returns when an event was first recorded, in whichever store that was: here, unless its metadata names
// an earlier store's time.
func FirstCreated(metadata []byte, here time.Time) time.Time {
	if bytes.Contains(metadata, originalCreatedKey) {
		var copied struct {
			At time.Time `json:"$originalCreatedDate"`
		}
		if json.Unmarshal(metadata, &copied) == nil && !copied.At.IsZero() {
			return copied.At.UTC()
		}
	}
	return here
}

// sizeLimit is what servers take at most, if they count metadata and type too. A type counts twice its length.
const sizeLimit = 1 << 20

// CarriedMetadata returns the metadata that a copy of an event has: with the time when it was first recorded, if the
// metadata is a JSON object or empty, lacks that time, and has room for it. A server would refuse an event that became
// too large by it.
func CarriedMetadata(e *Recorded) []byte { return AppendCarriedMetadata(nil, e) }

// AppendCarriedMetadata appends what CarriedMetadata returns.
func AppendCarriedMetadata(out []byte, e *Recorded) []byte {
	var room [80]byte
	property := append(append(room[:0], originalCreatedKey...), ':', '"')
	property = append(e.Created.AppendFormat(property, time.RFC3339Nano), '"')
	object := bytes.TrimSpace(e.Metadata)
	size := len(e.Data) + len(property) + 2*len(e.Type)
	switch {
	case len(object) == 0 && size+len("{}") <= sizeLimit:
		return append(append(append(out, '{'), property...), '}')
	case len(object) == 0, object[0] != '{', size+len(object)+len(",") > sizeLimit,
		bytes.Contains(object, originalCreatedKey), !json.Valid(object):
		return append(out, e.Metadata...)
	}
	out = append(out, object[:len(object)-1]...)
	if inside := bytes.TrimSpace(object[1 : len(object)-1]); len(inside) > 0 {
		out = append(out, ',')
	}
	return append(append(out, property...), '}')
}

// IdentityOf names the store whose first event is given, and which recorded it at a time, as distinct from any other
// store, a copy included. Checkpoints hold the name, so it must not change.
func IdentityOf(first *Recorded, here time.Time) string {
	return fmt.Sprintf("%s at %s of %s", first.ID, first.Position, here.Format(time.RFC3339Nano))
}
