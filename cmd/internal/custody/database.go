package custody

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// database keeps data keys in a second Postgres, wrapped by the master key alone. It has no slots that are overwritten:
// see docs/decide/0005-crypto-shredding.md.
type database struct {
	pool *pgxpool.Pool

	mu    sync.Mutex
	ready bool // the table is there
}

const (
	databaseConnections = 4
	databaseTimeout     = 5 * time.Second
)

var errDatabaseURL = errors.New("CARILLON_KEY_STORE can't be parsed: it must look like postgres://user:password@host:5432/keys, or name a directory")

func newDatabase(url string) (*database, error) {
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, errDatabaseURL // the error's text may hold the password
	}
	cfg.MaxConns, cfg.ConnConfig.ConnectTimeout = databaseConnections, databaseTimeout
	pool, err := pgxpool.NewWithConfig(context.Background(), cfg) // does not connect yet
	if err != nil {
		return nil, errDatabaseURL
	}
	return &database{pool: pool}, nil
}

// String implements place.
func (d *database) String() string {
	cfg := d.pool.Config().ConnConfig
	return fmt.Sprintf("database %s on %s", cfg.Database, cfg.Host)
}

// prepare makes the table at the first use.
func (d *database) prepare(ctx context.Context) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ready {
		return nil
	}
	err := pgx.BeginFunc(ctx, d.pool, func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, "SELECT pg_advisory_xact_lock(hashtextextended('carillon_keys', 0))")
		if err == nil {
			_, err = tx.Exec(ctx, `CREATE SCHEMA IF NOT EXISTS carillon_keys;
				CREATE TABLE IF NOT EXISTS carillon_keys.data_keys (
					id uuid PRIMARY KEY, wrapped bytea NOT NULL, created_at timestamptz NOT NULL DEFAULT now())`)
		}
		return err
	})
	d.ready = err == nil
	return err
}

// Add implements place.
func (d *database) Add(ctx context.Context, owner uuid.UUID, wrapped []byte) (kept []byte, err error) {
	if err := d.prepare(ctx); err != nil {
		return nil, err
	}
	if _, err := d.pool.Exec(ctx, "INSERT INTO carillon_keys.data_keys (id, wrapped) VALUES ($1, $2) ON CONFLICT DO NOTHING", owner, wrapped); err != nil {
		return nil, err
	}
	err = d.pool.QueryRow(ctx, "SELECT wrapped FROM carillon_keys.data_keys WHERE id = $1", owner).Scan(&kept)
	if errors.Is(err, pgx.ErrNoRows) {
		return wrapped, nil // it was deleted at once
	}
	return kept, err
}

// Replace implements place.
func (d *database) Replace(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	_, err := d.pool.Exec(ctx, `INSERT INTO carillon_keys.data_keys (id, wrapped) VALUES ($1, $2)
		ON CONFLICT (id) DO UPDATE SET wrapped = excluded.wrapped`, owner, wrapped)
	return err
}

// Exchange implements place.
func (d *database) Exchange(ctx context.Context, owner uuid.UUID, from, to []byte) error {
	_, err := d.pool.Exec(ctx, "UPDATE carillon_keys.data_keys SET wrapped = $3 WHERE id = $1 AND wrapped = $2", owner, from, to)
	return err
}

// Count implements place.
func (d *database) Count(ctx context.Context) (n int, err error) {
	if err := d.prepare(ctx); err != nil {
		return 0, err
	}
	err = d.pool.QueryRow(ctx, "SELECT count(*) FROM carillon_keys.data_keys").Scan(&n)
	return n, err
}

// Erase implements place.
func (d *database) Erase(ctx context.Context, owners ...uuid.UUID) error {
	if err := d.prepare(ctx); err != nil {
		return err
	}
	_, err := d.pool.Exec(ctx, "DELETE FROM carillon_keys.data_keys WHERE id = ANY($1)", owners)
	return err
}

// All implements place.
func (d *database) All(ctx context.Context) (keys map[uuid.UUID]Key, damaged int, err error) {
	if err := d.prepare(ctx); err != nil {
		return nil, 0, err
	}
	keys, err = readKeys(ctx, d.pool, "SELECT id, wrapped, created_at FROM carillon_keys.data_keys")
	return keys, 0, err
}

// EraseDamaged implements place: Postgres' rows have checksums of their own.
func (*database) EraseDamaged() error { return nil }

// Close implements place.
func (d *database) Close() { d.pool.Close() }

func readKeys(ctx context.Context, pool *pgxpool.Pool, sql string) (map[uuid.UUID]Key, error) {
	rows, err := pool.Query(ctx, sql)
	if err != nil {
		return nil, fmt.Errorf("read data keys: %w", err)
	}
	keys := map[uuid.UUID]Key{}
	var owner uuid.UUID
	var key Key
	_, err = pgx.ForEachRow(rows, []any{&owner, &key.Wrapped, &key.Since}, func() error {
		keys[owner] = key
		key = Key{}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read data keys: %w", err)
	}
	return keys, nil
}
