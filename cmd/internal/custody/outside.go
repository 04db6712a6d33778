package custody

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore/durable"
)

// HoldsSlots reports whether a directory is a key store.
func HoldsSlots(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, slotsFile))
	return err == nil
}

// ReadSlots reads the keys of a key store's directory, which may be in use. One that does not exist has none.
func ReadSlots(ctx context.Context, dir string) (map[uuid.UUID]Key, error) {
	if !HoldsSlots(dir) {
		return map[uuid.UUID]Key{}, nil
	}
	slots := NewSlots(dir, time.Now)
	defer slots.Close()
	keys, _, err := slots.All(ctx)
	return keys, err
}

// EncodeSlots returns the file of a key store that holds some keys and no others.
func EncodeSlots(keys map[uuid.UUID]Key) ([]byte, error) {
	page := make([]byte, slotsStart, slotsStart+len(keys)*slotSize)
	copy(page, slotsHeader)
	for owner, key := range keys {
		if len(key.Wrapped) > maxWrapped {
			return nil, fmt.Errorf("a wrapped data key of %d bytes does not fit a slot", len(key.Wrapped))
		}
		page = append(page, writeSlot(owner, key)...)
	}
	return page, nil
}

// DecodeSlots returns the keys of a key store's file. What is no whole key is left out.
func DecodeSlots(page []byte) map[uuid.UUID]Key {
	keys := map[uuid.UUID]Key{}
	for at := slotsStart; at+slotSize <= len(page); at += slotSize {
		if owner, key, whole := readSlot(page[at : at+slotSize]); whole {
			keys[owner] = key
		}
	}
	return keys
}

// WriteSlots makes the key store of a directory that no server uses hold some keys and no others, all at once.
func WriteSlots(dir string, keys map[uuid.UUID]Key) error {
	page, err := EncodeSlots(keys)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(dir, slotsFile)
	if err := os.Remove(path + ".partial"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	file, err := os.OpenFile(path+".partial", os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // the operator's own
	if err != nil {
		return err
	}
	_, err = file.Write(page)
	if err == nil {
		err = file.Sync()
	}
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	if err := os.Rename(path+".partial", path); err != nil {
		return err
	}
	return durable.SyncDir(dir)
}

// FillSlots adds keys to the key store of a directory.
func FillSlots(ctx context.Context, dir string, keys map[uuid.UUID]Key) error {
	there, err := ReadSlots(ctx, dir)
	if err != nil {
		return err
	}
	if len(there) == 0 {
		return WriteSlots(dir, keys)
	}
	slots := NewSlots(dir, time.Now)
	defer slots.Close()
	for owner, key := range keys {
		if _, err := slots.Add(ctx, owner, key.Wrapped); err != nil {
			return err
		}
	}
	return nil
}

// ReadDatabase reads the keys of a key store that is a database.
func ReadDatabase(ctx context.Context, url string) (map[uuid.UUID]Key, error) {
	d, err := newDatabase(url)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	keys, _, err := d.All(ctx)
	return keys, err
}

// FillDatabase adds keys to a key store that is a database.
func FillDatabase(ctx context.Context, url string, keys map[uuid.UUID]Key) error {
	d, err := newDatabase(url)
	if err != nil {
		return err
	}
	defer d.Close()
	for owner, key := range keys {
		if _, err := d.Add(ctx, owner, key.Wrapped); err != nil {
			return err
		}
	}
	return nil
}

// ReadTable reads the keys that Postgres has.
func ReadTable(ctx context.Context, pool *pgxpool.Pool) (map[uuid.UUID]Key, error) {
	return readKeys(ctx, pool, "SELECT id, wrapped, created_at FROM carillon.data_keys")
}

// FillTable adds keys to Postgres.
func FillTable(ctx context.Context, pool *pgxpool.Pool, keys map[uuid.UUID]Key) error {
	for owner, key := range keys {
		if _, err := pool.Exec(ctx, "INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING", owner, key.Wrapped); err != nil {
			return err
		}
	}
	return nil
}
