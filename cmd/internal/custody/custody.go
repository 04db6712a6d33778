package custody

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adapters"
	"carillon/command"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections/sessionlock"
)

// Store is what custody needs of the event store: what became of owners, and which store that is.
type Store interface {
	eventstore.Store
	Identity(ctx context.Context) (string, error)
}

// Config says where keys are kept, and what opens them.
type Config struct {
	Pool  *pgxpool.Pool
	Locks *sessionlock.Locks
	Ring  *sealing.Ring
	// Dir is the directory of the key store, and Copy another one for a copy of the epoch key. Both are empty where there
	// is no directory: then Database may be the address of a second database. With neither, Postgres is the only place.
	Dir, Copy, Database string

	// AcceptLost goes on where no data key opens.
	AcceptLost bool

	Store Store
	Now   func() time.Time
	Log   *slog.Logger
}

// Custody implements sealing.KeyStore on two places. It is safe for concurrent use, by several processes as well.
type Custody struct {
	Config
	table  adapters.DataKeys
	second place   // nil: none
	epochs *Epochs // nil: none

	mu      sync.Mutex
	lost    []uuid.UUID             // owners
	lostOf  map[uuid.UUID]uuid.UUID // those of them that are client certificates, with their organizations
	trouble error                   // why the second place could not be used the last time
	left    int                     // how many keys the second place had more than Postgres after the last comparison
	partial bool                    // the last comparison could not ask the events
}

var _ sealing.KeyStore = (*Custody)(nil)

// New makes the custody of a configuration. Call Open before its use, and Close after it.
func New(cfg Config) (*Custody, error) {
	c := &Custody{Config: cfg, table: adapters.DataKeys{Pool: cfg.Pool}}
	switch {
	case cfg.Dir != "":
		c.second, c.epochs = NewSlots(cfg.Dir, cfg.Now), NewEpochs(cfg.Dir, cfg.Copy)
	case cfg.Database != "":
		second, err := newDatabase(cfg.Database)
		if err != nil {
			return nil, err
		}
		c.second = second
	}
	return c, nil
}

// Close gives back what New took.
func (c *Custody) Close() {
	if c.second != nil {
		c.second.Close()
	}
	if c.epochs != nil {
		c.epochs.Close()
	}
}

// Lost are those who live and whose data key is in neither place, as the last comparison found them.
func (c *Custody) Lost() Lost {
	c.mu.Lock()
	defer c.mu.Unlock()
	return LostOf(c.lost, c.lostOf)
}

// Trouble is why the second place could not be used the last time; nil where it could.
func (c *Custody) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

// Add implements sealing.KeyStore. The key is durable in the second place before it is in Postgres, where it is read.
func (c *Custody) Add(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	wrapped, err := c.addSecond(ctx, owner, wrapped)
	if err != nil {
		return unavailable("create data key", err)
	}
	if err := c.addTable(ctx, owner, wrapped); err != nil {
		return err
	}
	stored, err := c.Find(ctx, owner)
	if errors.Is(err, sealing.ErrShredded) {
		return nil // it was deleted at once
	}
	if err != nil {
		return err
	}
	if err := c.Ring.Opens(owner, stored); errors.Is(err, sealing.ErrDamaged) && !errors.Is(err, sealing.ErrUnknownKey) {
		_, err := c.insert(ctx, replaceKey, owner, wrapped)
		return err
	}
	if c.second == nil {
		return nil
	}
	if same, err := c.Ring.Same(owner, stored, wrapped); err == nil && same {
		return nil
	}
	// Postgres has had another one all along: that one counts.
	return unavailable("create data key", c.replaceSecond(ctx, owner, stored))
}

func (c *Custody) addSecond(ctx context.Context, owner uuid.UUID, wrapped []byte) (kept []byte, err error) {
	if c.second == nil {
		return wrapped, nil
	}
	kept, err = c.second.Add(ctx, owner, wrapped)
	if err == nil && c.Ring.Opens(owner, kept) != nil {
		return wrapped, c.second.Replace(ctx, owner, wrapped)
	}
	return kept, err
}

// replaceSecond keeps a key in the second place, wrapped for it.
func (c *Custody) replaceSecond(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	based, err := c.Ring.Rewrap(c.Ring.Base(), owner, wrapped)
	if err != nil {
		return err
	}
	return c.second.Replace(ctx, owner, based)
}

// insertKey stores a key only where it is wrapped by the key that is in use: whoever renews that one waits for those who
// are at it, and then finds all that they wrote.
const insertKey = `
	WITH state AS (SELECT wrapping FROM carillon.key_state FOR SHARE),
	added AS (INSERT INTO carillon.data_keys (id, wrapped) SELECT $1, $2 FROM state WHERE wrapping = $3 ON CONFLICT `

const (
	addKey     = insertKey + `DO NOTHING) SELECT wrapping = $3 FROM state`
	replaceKey = insertKey + `(id) DO UPDATE SET wrapped = excluded.wrapped) SELECT wrapping = $3 FROM state`
)

const mostReloads = 10

func (c *Custody) addTable(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	for range mostReloads {
		stored, err := c.insert(ctx, addKey, owner, wrapped)
		if err != nil || stored {
			return err
		}
		if err := c.reload(ctx); err != nil { // another process has renewed the epoch key, or the master key
			return unavailable("create data key", err)
		}
		if c.second != nil {
			if err := c.replaceSecond(ctx, owner, wrapped); err != nil {
				return unavailable("create data key", err)
			}
		}
	}
	return unavailable("create data key", errors.New("the key that wraps data keys is not known here: has this process the same key store, and the same master key, as the others?"))
}

// insert runs addKey or replaceKey. stored is false where another key wraps by now.
func (c *Custody) insert(ctx context.Context, sql string, owner uuid.UUID, wrapped []byte) (stored bool, err error) {
	by, err := c.Ring.Current()
	if err != nil {
		return false, err
	}
	if wrapped, err = c.Ring.Rewrap(by, owner, wrapped); err != nil {
		return false, err
	}
	err = c.Pool.QueryRow(ctx, sql, owner, wrapped, by[:]).Scan(&stored)
	return stored, unavailable("store data key", err)
}

// Find implements sealing.KeyStore.
func (c *Custody) Find(ctx context.Context, owner uuid.UUID) (wrapped []byte, err error) {
	wrapped, err = c.table.Find(ctx, owner)
	if err != nil {
		return nil, err
	}
	if id, named := sealing.WrappedBy(wrapped); named {
		if _, known := c.Ring.MasterOf(id); !known {
			err = c.reload(ctx) // another process has renewed it
		}
	}
	return wrapped, unavailable("load data key", err)
}

// Delete implements sealing.KeyStore.
func (c *Custody) Delete(ctx context.Context, owner uuid.UUID) error {
	var second error
	if c.second != nil {
		second = c.second.Erase(ctx, owner)
	}
	_, err := c.Pool.Exec(ctx, `WITH gone AS (DELETE FROM carillon.data_keys WHERE id = $1 RETURNING id)
		UPDATE carillon.key_state SET shredded_at = coalesce(shredded_at, now()) WHERE EXISTS (SELECT FROM gone)`, owner)
	return unavailable("shred data key", errors.Join(second, err))
}

// reload takes in what another process has changed of the keys that wrap.
func (c *Custody) reload(ctx context.Context) error {
	if c.epochs != nil {
		if _, err := c.loadEpochs(); err != nil {
			return err
		}
	}
	var wrapping []byte
	if err := c.Pool.QueryRow(ctx, "SELECT wrapping FROM carillon.key_state").Scan(&wrapping); err != nil {
		return err
	}
	return c.follow(wrapping)
}

// follow uses the master key by which data keys are wrapped now, where it is known.
func (c *Custody) follow(wrapping []byte) error {
	if master, known := c.Ring.MasterOf(sealing.KeyID(wrapping)); known {
		return c.Ring.UseMaster(master)
	}
	return nil
}

// loadEpochs takes the epoch keys of the files into the ring, and gives the newest.
func (c *Custody) loadEpochs() (newest Epoch, err error) {
	epochs, err := c.epochs.Load()
	if err != nil {
		return newest, err
	}
	keys := make([][]byte, len(epochs))
	for i, epoch := range epochs {
		keys[i], newest = epoch.Key, epoch
	}
	return newest, c.Ring.UseEpochs(keys)
}

// unavailable marks a failure as one that passes.
func unavailable(what string, err error) error {
	if err == nil || errors.Is(err, command.ErrUnavailable) || errors.Is(err, sealing.ErrShredded) {
		return err
	}
	return fmt.Errorf("%s: %w: %w", what, command.ErrUnavailable, err)
}
