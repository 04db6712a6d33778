package tail

import (
	"log/slog"

	"carillon/eventstore"
)

// SilentAfter is after how many events a reader hears how far it has come.
const SilentAfter = silentAfter

// NewSized makes a store that keeps n events.
func NewSized(store eventstore.Store, log *slog.Logger, events int) *Store {
	s := New(store, log)
	s.events = events
	return s
}
