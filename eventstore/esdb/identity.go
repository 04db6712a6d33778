package esdb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
)

// OriginalCreated is the property of an event's metadata in which a copy keeps when the event was first recorded, as
// RFC 3339: no server lets a client say when. Replicators of EventStoreDB use the same name.
const OriginalCreated = "$originalCreatedDate"

var originalCreatedKey = []byte(`"` + OriginalCreated + `"`)

// created is when the store first recorded an event, in whichever store that was.
func created(r *esdb.RecordedEvent) time.Time {
	if bytes.Contains(r.UserMetadata, originalCreatedKey) {
		var copied struct {
			At time.Time `json:"$originalCreatedDate"`
		}
		if json.Unmarshal(r.UserMetadata, &copied) == nil && !copied.At.IsZero() {
			return copied.At.UTC()
		}
	}
	return r.CreatedDate.UTC()
}

// Identity tells this store from any other, a copy of it included: its first event, where it stands, and when this
// store recorded it. It is "" as long as nobody has stored anything.
func (s *Store) Identity(ctx context.Context) (string, error) {
	for entry, err := range s.follow(ctx, esdb.Start{}, esdb.ExcludeSystemEventsFilter()) {
		switch {
		case err != nil:
			return "", fmt.Errorf("first event: %w", err)
		case entry.CaughtUp != nil:
			return "", nil
		case entry.EventAppeared != nil && entry.EventAppeared.Event != nil:
			first := entry.EventAppeared.Event
			return fmt.Sprintf("%s at %d/%d of %s", first.EventID, first.Position.Commit, first.Position.Prepare,
				first.CreatedDate.UTC().Format(time.RFC3339Nano)), nil
		}
	}
	return "", ctx.Err()
}
