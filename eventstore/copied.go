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

// IdentityOf names the store whose first event is given, and which recorded it at a time, as distinct from any other
// store, a copy included. Checkpoints hold the name, so it must not change.
func IdentityOf(first *Recorded, here time.Time) string {
	return fmt.Sprintf("%s at %s of %s", first.ID, first.Position, here.Format(time.RFC3339Nano))
}
