package custody

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Holds reports whether a directory is one of data keys.
func Holds(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, aboutFile))
	return err == nil
}

// Stored are the data keys of an installation for a backup or restore, while its server runs or not.
type Stored struct{ place }

// InDir returns the keys in a directory, which may not be there.
func InDir(dir string) Stored { return Stored{&files{dir: dir}} }

// InDatabase returns the keys of a copy in a second Postgres.
func InDatabase(url string) (Stored, error) {
	t, err := newCopyTable(url)
	return Stored{t}, err
}

// InTable returns the keys of a home in Postgres.
func InTable(pool *pgxpool.Pool) Stored { return Stored{newHomeTable(pool)} }

// Read returns all keys.
func (s Stored) Read(ctx context.Context) (map[uuid.UUID][]byte, error) {
	keys, err := s.All(ctx)
	if errors.Is(err, fs.ErrNotExist) { // the directory, which has no keys then
		err = nil
	}
	return keys, err
}

// Fill adds keys that are not there.
func (s Stored) Fill(ctx context.Context, keys map[uuid.UUID][]byte) error {
	if f, ok := s.place.(*files); ok {
		if err := f.open(); err != nil {
			return err
		}
	}
	return fill(ctx, s.place, keys)
}

func fill(ctx context.Context, p place, keys map[uuid.UUID][]byte) error {
	for owner, wrapped := range keys {
		if err := p.Add(ctx, owner, wrapped); err != nil {
			return err
		}
	}
	return nil
}

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
