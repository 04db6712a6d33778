package custody

import (
	"context"

	"github.com/google/uuid"
)

// place is where data keys are kept besides Postgres.
type place interface {
	// String says where that is, without a password.
	String() string
	// Add keeps the key of an owner. Where there is one already, that one stays and is given.
	Add(ctx context.Context, owner uuid.UUID, wrapped []byte) (kept []byte, err error)
	// Replace keeps the key of an owner, whatever there was.
	Replace(ctx context.Context, owner uuid.UUID, wrapped []byte) error
	// Exchange keeps the key of an owner in another form, unless it is gone or another by now.
	Exchange(ctx context.Context, owner uuid.UUID, from, to []byte) error
	// Erase removes keys for good.
	Erase(ctx context.Context, owners ...uuid.UUID) error
	// All gives every key, and counts what is no whole key.
	All(ctx context.Context) (keys map[uuid.UUID]Key, damaged int, err error)
	// Count is the number of keys.
	Count(ctx context.Context) (int, error)
	// EraseDamaged removes what is no whole key.
	EraseDamaged() error
	// Close gives back what it holds.
	Close()
}
