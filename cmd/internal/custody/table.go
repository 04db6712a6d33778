package custody

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command/sealing"
)

const (
	homeTable = "carillon.data_keys"
	copyTable = "carillon_keys.data_keys"

	copyConnections = 4
	copyTimeout     = 5 * time.Second
	batch           = 500 // data keys in one transaction
)

// table keeps data keys in Postgres. It overwrites nothing: see docs/decide/0050-one-home-of-keys.md.
type table struct {
	name string
	pool *pgxpool.Pool
	own  bool // The pool is closed with the table.

	mu   sync.Mutex
	made bool
}

// newHomeTable returns the table of an installation's own database, which migrations make.
func newHomeTable(pool *pgxpool.Pool) *table { return &table{name: homeTable, pool: pool, made: true} }

var errDatabaseURL = errors.New("CARILLON_KEY_STORE can't be parsed: " +
	"it must look like postgres://user:password@host:5432/keys, or name a directory")

// newCopyTable returns the table of a second database, which is made at its first use.
func newCopyTable(url string) (*table, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errDatabaseURL // the error's text may hold the password
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = copyConnections, copyTimeout
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg) // does not connect yet
	if err != nil {
		return nil, errDatabaseURL
	}
	return &table{name: copyTable, pool: pool, own: true}, nil
}

// String implements place.
func (t *table) String() string {
	cfg := t.pool.Config().ConnConfig
	return fmt.Sprintf("database %s on %s", cfg.Database, cfg.Host)
}

// prepare makes the table at the first use.
func (t *table) prepare(ctx context.Context) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.made {
		return nil
	}
	err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('carillon_keys', 0))")
		if err == nil {
			_, err = tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS carillon_keys;
				CREATE TABLE IF NOT EXISTS carillon_keys.data_keys (
					id uuid PRIMARY KEY, wrapped bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
		}
		return err
	})
	t.made = err == nil
	return err
}

// Find implements place.
func (t *table) Find(ctx context.Context, owner uuid.UUID) (wrapped []byte, err error) {
	if err := t.prepare(ctx); err != nil {
		return nil, err
	}
	err = t.pool.QueryRow(ctx, "SELECT wrapped FROM "+t.name+" WHERE id = $1", owner).Scan(&wrapped)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, sealing.ErrShredded
	}
	return wrapped, err
}

// Add implements place.
func (t *table) Add(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	return t.insert(ctx, "DO NOTHING", owner, wrapped)
}

// Put implements place.
func (t *table) Put(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	return t.insert(ctx, "(id) DO UPDATE SET wrapped = excluded.wrapped", owner, wrapped)
}

func (t *table) insert(ctx context.Context, conflict string, owner uuid.UUID, wrapped []byte) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	_, err := t.pool.Exec(ctx,
		"INSERT INTO "+t.name+" (id, wrapped) VALUES ($1, $2) ON CONFLICT "+conflict, owner, wrapped)
	return err
}

// Exchange implements place.
func (t *table) Exchange(ctx context.Context, changes []change) error {
	for len(changes) > 0 {
		some := changes[:min(len(changes), batch)]
		changes = changes[len(some):]
		var updates pgx.Batch
		for _, c := range some {
			updates.Queue("UPDATE "+t.name+" SET wrapped = $3 WHERE id = $1 AND wrapped = $2", c.owner, c.from, c.to)
		}
		err := pgx.BeginFunc(ctx, t.pool, func(tx pgx.Tx) error { return tx.SendBatch(ctx, &updates).Close() })
		if err != nil {
			return err
		}
	}
	return nil
}

// Erase implements place. In the home it notes the time, because the epoch key must be renewed from then on.
func (t *table) Erase(ctx context.Context, owners ...uuid.UUID) error {
	if err := t.prepare(ctx); err != nil {
		return err
	}
	erase := "DELETE FROM " + t.name + " WHERE id = ANY($1)"
	if !t.own {
		erase = "WITH gone AS (" + erase + ` RETURNING id)
			UPDATE carillon.key_state SET shredded_at = coalesce(shredded_at, now()) WHERE EXISTS (SELECT FROM gone)`
	}
	_, err := t.pool.Exec(ctx, erase, owners)
	return err
}

// All implements place.
func (t *table) All(ctx context.Context) (map[uuid.UUID][]byte, error) {
	if err := t.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := t.pool.Query(ctx, "SELECT id, wrapped FROM "+t.name)
	if err != nil {
		return nil, err
	}
	keys := map[uuid.UUID][]byte{}
	var owner uuid.UUID
	var wrapped []byte
	_, err = pgx.ForEachRow(rows, []any{&owner, &wrapped}, func() error {
		keys[owner] = bytes.Clone(wrapped)
		return nil
	})
	return keys, err
}

// Owners implements place.
func (t *table) Owners(ctx context.Context) ([]uuid.UUID, error) {
	if err := t.prepare(ctx); err != nil {
		return nil, err
	}
	rows, err := t.pool.Query(ctx, "SELECT id FROM "+t.name)
	if err != nil {
		return nil, err
	}
	return pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
}

// Close implements place.
func (t *table) Close() {
	if t.own {
		t.pool.Close()
	}
}

// A file of slots holds the keys of a backup. It begins with a header; slots of one size follow from the second page
// on.
//
//	slot   "KEY1" ‖ length (4 bytes) ‖ 8 bytes, unused ‖ owner (16) ‖ wrapped data key, zeros ‖ SHA-256 of all that
const (
	slotsHeader = "carillon keys 1\n"
	slotsStart  = 4096 // bytes
	slotSize    = 256
	slotMagic   = "KEY1"
	slotFixed   = 32 // bytes before the wrapped data key
	slotRoom    = slotSize - slotFixed - sha256.Size
)

// EncodeSlots returns a file of slots.
func EncodeSlots(keys map[uuid.UUID][]byte) ([]byte, error) {
	page := make([]byte, slotsStart, slotsStart+len(keys)*slotSize)
	copy(page, slotsHeader)
	for owner, wrapped := range keys {
		if len(wrapped) > slotRoom {
			return nil, fmt.Errorf("a wrapped data key of %d bytes does not fit a slot", len(wrapped))
		}
		slot := make([]byte, slotSize)
		copy(slot, slotMagic)
		binary.LittleEndian.PutUint32(slot[4:], uint32(len(wrapped))) //nolint:gosec // at most slotRoom
		copy(slot[16:], owner[:])
		copy(slot[slotFixed:], wrapped)
		sum := sha256.Sum256(slot[:slotSize-sha256.Size])
		copy(slot[slotSize-sha256.Size:], sum[:])
		page = append(page, slot...)
	}
	return page, nil
}

// DecodeSlots returns the keys of a file of slots. Damaged slots are left out.
func DecodeSlots(page []byte) map[uuid.UUID][]byte {
	keys := map[uuid.UUID][]byte{}
	for at := slotsStart; at+slotSize <= len(page); at += slotSize {
		slot := page[at : at+slotSize]
		sum := sha256.Sum256(slot[:slotSize-sha256.Size])
		length := binary.LittleEndian.Uint32(slot[4:])
		if string(slot[:4]) != slotMagic || length > slotRoom || !bytes.Equal(sum[:], slot[slotSize-sha256.Size:]) {
			continue
		}
		keys[uuid.UUID(slot[16:slotFixed])] = bytes.Clone(slot[slotFixed : slotFixed+length])
	}
	return keys
}
