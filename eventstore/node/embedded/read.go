package embedded

import (
	"context"
	"iter"
	"strings"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/node/internal/store"
)

const (
	pageEvents = 512
	pageBytes  = 1 << 20 // one event may go beyond
)

// Read implements eventstore.Store.
func (s *Store) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		next, more := max(from, 0), true
		for more {
			var page []eventstore.Recorded
			var err error
			page, more, err = s.page(ctx, stream, next)
			for i := range page {
				if !yield(page[i], nil) {
					return
				}
				next = page[i].Revision + 1
			}
			if err != nil {
				yield(eventstore.Recorded{}, translate(err))
				return
			}
		}
	}
}

// page reads the next events of a stream, and reports whether there may be more.
func (s *Store) page(
	ctx context.Context, name string, from eventstore.Revision,
) (page []eventstore.Recorded, more bool, err error) {
	if err := ctx.Err(); err != nil {
		return nil, false, err
	}
	var failed error
	bytes := 0
	err = s.read(func() error {
		first := uint64(from) //nolint:gosec // not negative
		stream, err := s.data.Read(ctx, name, first, store.Forwards, func(record store.Record) bool {
			var event eventstore.Recorded
			if event, failed = recorded(record); failed != nil {
				return false
			}
			page = append(page, event)
			bytes += len(event.Data) + len(event.Metadata)
			more = len(page) == pageEvents || bytes >= pageBytes
			return !more
		})
		if err == nil && stream.Tombstoned() {
			err = store.ErrStreamDeleted
		}
		return err
	})
	if err == nil {
		err = failed
	}
	return page, more, err
}

// recorded copies a record.
func recorded(record store.Record) (eventstore.Recorded, error) {
	stream, eventType, err := record.Names()
	if err != nil {
		return eventstore.Recorded{}, err
	}
	return namedRecorded(record, string(stream), string(eventType))
}

// namedRecorded copies a record whose names are known.
func namedRecorded(record store.Record, stream, eventType string) (eventstore.Recorded, error) {
	metadata, data, err := record.Clone().Content()
	if err != nil {
		return eventstore.Recorded{}, err
	}
	return eventstore.Recorded{
		ID:       uuid.UUID(record.ID()),
		Stream:   stream,
		Revision: eventstore.Revision(record.Revision()), //nolint:gosec // at most store.MaxRevision
		Position: position(record.Position),
		Type:     eventType,
		Data:     data,
		Metadata: metadata,
		Created:  eventstore.FirstCreated(metadata, record.CreatedAt()),
	}, nil
}

// system reports whether events of a type are the store's own.
func system(eventType string) bool { return strings.HasPrefix(eventType, "$") }
