package esdb

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore"
)

// OriginalCreated is the property of an event's metadata in which a copy keeps when the event was first recorded, as
// RFC 3339: no server lets a client say when. Replicators of EventStoreDB use the same name.
const OriginalCreated = "$originalCreatedDate"

// Filler is the type of events that a copy has in the places of those which its source no longer had. Metadata hides them
// from who reads their stream; subscriptions take them for checkpoints.
const Filler = "carillon.filler.v1"

var originalCreatedKey = []byte(`"` + OriginalCreated + `"`)

// created is when an event was first recorded, in whichever store that was.
func created(metadata []byte, here time.Time) time.Time {
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

// Identity tells this store from any other, a copy of it included: its first event, where it stands, and when this
// store recorded it. It is "" as long as nobody has stored anything.
func (s *Store) Identity(ctx context.Context) (string, error) {
	request := func() *streams.ReadReq_Options {
		return asked(&streams.ReadReq_Options{
			StreamOption: ofAll(eventstore.Start), FilterOption: serverFilter(eventstore.Filter{}),
			CountOption: &streams.ReadReq_Options_Count{Count: 1},
		})
	}
	for first, err := range s.entries(ctx, request) {
		if err != nil {
			return "", fmt.Errorf("first event: %w", err)
		}
		return fmt.Sprintf("%s at %d/%d of %s", first.ID, first.Position.Commit, first.Position.Prepare,
			first.here.Format(time.RFC3339Nano)), nil
	}
	return "", nil
}
