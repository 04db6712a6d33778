package esdb

import (
	"context"
	"fmt"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore"
)

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
		return eventstore.IdentityOf(&first.Recorded, first.here), nil
	}
	return "", nil
}
