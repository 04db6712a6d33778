package custody

import (
	"context"

	"github.com/google/uuid"
)

// change is a key in another form.
type change struct {
	owner    uuid.UUID
	from, to []byte
}

// place keeps data keys: it is the home, or a copy of it.
type place interface {
	// String names the place, without a password.
	String() string
	// Find returns the key of an owner, or sealing.ErrShredded.
	Find(ctx context.Context, owner uuid.UUID) ([]byte, error)
	// Add keeps the key of an owner durably, unless there is one already.
	Add(ctx context.Context, owner uuid.UUID, wrapped []byte) error
	// Put keeps the key of an owner durably, in place of any other.
	Put(ctx context.Context, owner uuid.UUID, wrapped []byte) error
	// Exchange keeps keys in another form, except those that are gone or different by now.
	Exchange(ctx context.Context, changes []change) error
	// Erase removes keys permanently.
	Erase(ctx context.Context, owners ...uuid.UUID) error
	// All returns every key, Owners whose keys there are.
	All(ctx context.Context) (map[uuid.UUID][]byte, error)
	Owners(ctx context.Context) ([]uuid.UUID, error)
	// Close releases what the place holds.
	Close()
}
