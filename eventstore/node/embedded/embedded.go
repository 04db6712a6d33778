// Package embedded implements eventstore.Store on the storage of a node in the same process: calls, without a protocol.
//
//	Append    encode ──▶ sequencer (decide, batch) ──▶ sync ──▶ position
//	Read      pages of events, each from one look at the database
//	Subscribe pages of the log up to the last durable event, then the next one
//
// A call keeps nothing of the database while its caller works on the result.
package embedded

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"carillon/eventstore"
	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/panics"
)

// Store is the event store of this process. It is safe for concurrent use.
type Store struct {
	data  *store.Store
	ended chan struct{} // closed by Close

	reading sync.RWMutex // held while the database is read
	closed  bool
}

var _ eventstore.Store = (*Store)(nil)

// New returns a store on a node's data, which is closed after it.
func New(data *store.Store) *Store { return &Store{data: data, ended: make(chan struct{})} }

// Close ends subscriptions, refuses reads from then on, and waits for reads in progress. Appends are accepted until the
// data is closed.
func (s *Store) Close() {
	s.reading.Lock()
	defer s.reading.Unlock()
	if !s.closed {
		s.closed = true
		close(s.ended)
	}
}

// read calls a function that reads the database, unless the store is closed.
func (s *Store) read(look func() error) error {
	defer panics.Fatal()
	s.reading.RLock()
	defer s.reading.RUnlock()
	if s.closed {
		return store.ErrClosed
	}
	return look()
}

// translate returns the error of the program for one of the storage.
func translate(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, store.ErrStreamDeleted):
		return eventstore.ErrStreamDeleted
	case errors.Is(err, store.ErrFull):
		return fmt.Errorf("%w: nothing was written", eventstore.ErrFull)
	case errors.Is(err, store.ErrInvalid), errors.Is(err, eventstore.ErrTooLarge):
		return err
	}
	return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err) // closed, failed, damaged, or given up by the caller
}

// Head implements eventstore.Store.
func (s *Store) Head(ctx context.Context) (eventstore.Position, error) {
	if err := ctx.Err(); err != nil {
		return eventstore.Start, translate(err)
	}
	var head uint64
	err := s.read(func() error {
		head = s.data.Watermark()
		return nil
	})
	return position(head), translate(err)
}

func position(at uint64) eventstore.Position { return eventstore.Position{Commit: at, Prepare: at} }

// Identity returns a text that no other store has, a copy of it included; "" if it has no events.
func (s *Store) Identity(ctx context.Context) (identity string, err error) {
	if err := ctx.Err(); err != nil {
		return "", translate(err)
	}
	var failed error
	err = s.read(func() error {
		_, _, err := s.data.ReadAll(0, func(record store.Record) bool {
			var first eventstore.Recorded
			if first, failed = recorded(record); failed != nil || system(first.Type) {
				return failed == nil
			}
			identity = eventstore.IdentityOf(&first, record.CreatedAt())
			return false
		})
		return err
	})
	if err := errors.Join(err, failed); err != nil {
		return "", fmt.Errorf("first event: %w", translate(err))
	}
	return identity, nil
}
