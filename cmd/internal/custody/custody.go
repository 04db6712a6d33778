package custody

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/command"
	"carillon/command/irreversible"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections/sessionlock"
)

// Store is the event store: it decides which owners live.
type Store interface {
	eventstore.Store
	Identity(ctx context.Context) (string, error)
}

// Config has the places of keys, and what opens them.
type Config struct {
	Pool  *pgxpool.Pool
	Locks *sessionlock.Locks
	Ring  *sealing.Ring

	// File is the directory of the home. Optional: empty means that Postgres is the home.
	File string
	// Dir is the directory of the copy and of the epoch key, if Postgres is the home. Optional.
	Dir string
	// Database is the address of a second Postgres for the copy, if there is no Dir. Optional.
	Database string
	// DataDir has a copy of the epoch key, and Former is the File of other settings: its keys are taken in.
	DataDir, Former string

	// AcceptLost continues although owners that live have lost their keys.
	AcceptLost bool

	Store Store
	// Pass decides what may be erased by the clock now; see irreversible.Gate.
	Pass irreversible.Pass
	Log  *slog.Logger
}

// Custody implements sealing.KeyStore. It is safe for concurrent use, by several processes as well.
type Custody struct {
	Config
	home   place
	copied place   // nil means that there is no copy
	former place   // the home by other settings; nil means that there was none
	epochs *epochs // nil means that nothing but the master key wraps

	wraps sync.Mutex // while the key that wraps is changed, or looked up in Postgres

	mu      sync.Mutex
	lost    []uuid.UUID // owners
	lostBy  Lost        // the same by their kind
	trouble error       // why a place could not be used the last time
	left    int         // how many keys the copy had more than the home after the last comparison
	partial bool        // the last comparison could not ask the events
}

var _ sealing.KeyStore = (*Custody)(nil)

// New returns the custody of a configuration. Call Compare before its use, and Close after it.
func New(cfg Config) (*Custody, error) {
	c := &Custody{Config: cfg, home: newHomeTable(cfg.Pool)}
	if cfg.File != "" {
		c.home, c.former = &files{dir: cfg.File}, c.home
		c.epochs = newEpochs(cfg.File, cfg.DataDir)
		return c, nil
	}
	if cfg.Former != "" && filepath.Clean(cfg.Former) != filepath.Clean(cfg.Dir) && Holds(cfg.Former) {
		c.former = &files{dir: cfg.Former}
	}
	switch {
	case cfg.Dir != "":
		c.copied, c.epochs = &files{dir: cfg.Dir}, newEpochs(cfg.Dir, cfg.DataDir)
	case cfg.Database != "":
		copied, err := newCopyTable(cfg.Database)
		if err != nil {
			return nil, err
		}
		c.copied = copied
	}
	return c, nil
}

// Close releases what New took.
func (c *Custody) Close() {
	for _, p := range []place{c.home, c.copied, c.former} {
		if p != nil {
			p.Close()
		}
	}
}

// Lost returns the owners that live and have no key, as the last comparison found them.
func (c *Custody) Lost() Lost {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lostBy
}

// Trouble returns why a place could not be used the last time; nil if it could.
func (c *Custody) Trouble() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.trouble
}

// Add implements sealing.KeyStore. The key is durable in the home, then in the copy, before it is used. If the home has
// lost the key of an owner, that of the copy is taken, which opens what was sealed with it.
func (c *Custody) Add(ctx context.Context, owner uuid.UUID, wrapped []byte) error {
	if c.copied != nil {
		kept, err := c.copied.Find(ctx, owner)
		if err == nil && c.Ring.Opens(owner, kept) == nil {
			wrapped = kept
		} else if err != nil && !errors.Is(err, sealing.ErrShredded) {
			return unavailable("create data key", err)
		}
	}
	if err := c.keep(ctx, c.home, owner, wrapped, c.home.Add); err != nil {
		return unavailable("create data key", err)
	}
	stored, err := c.Find(ctx, owner)
	if errors.Is(err, sealing.ErrShredded) {
		return nil // it was deleted at once
	}
	if err != nil {
		return err
	}
	err = c.Ring.Opens(owner, stored)
	if errors.Is(err, sealing.ErrDamaged) && (c.AcceptLost || !errors.Is(err, sealing.ErrUnknownKey)) {
		stored, err = wrapped, c.keep(ctx, c.home, owner, wrapped, c.home.Put)
	}
	if err == nil && c.copied != nil {
		err = c.keep(ctx, c.copied, owner, stored, c.copied.Put)
	}
	return unavailable("create data key", err)
}

const maxReloads = 10

// errUnknownWrapping means that another process wraps data keys by a key that this one does not have.
var errUnknownWrapping = errors.New("the key that wraps data keys is not known here: " +
	"has this process the same key store, and the same master key, as the others?")

// keep stores a key in a place. A renewal or rotation in another process may have read that place before: therefore
// keep looks afterwards by which key to wrap, and wraps it again if that is another one by now.
func (c *Custody) keep(
	ctx context.Context, p place, owner uuid.UUID, wrapped []byte, store func(context.Context, uuid.UUID, []byte) error,
) error {
	var before []byte
	for range maxReloads {
		by, err := c.by(p)
		if err != nil {
			return err
		}
		next, err := c.Ring.Rewrap(by, owner, wrapped)
		if err != nil {
			return err
		}
		if before == nil {
			err = store(ctx, owner, next)
		} else {
			err = p.Exchange(ctx, []change{{owner: owner, from: before, to: next}})
		}
		if err == nil {
			err = c.reload(ctx)
		}
		if err != nil {
			return err
		}
		if now, err := c.by(p); err != nil || now == by {
			return err
		}
		before = next
	}
	return errUnknownWrapping
}

// by returns the id of the key that wraps keys in a place.
func (c *Custody) by(p place) (sealing.KeyID, error) {
	if p == c.home && c.File == "" {
		return c.Ring.Current()
	}
	return c.Ring.Base(), nil
}

// Find implements sealing.KeyStore.
func (c *Custody) Find(ctx context.Context, owner uuid.UUID) (wrapped []byte, err error) {
	wrapped, err = c.home.Find(ctx, owner)
	if err != nil {
		return nil, unavailable("load data key", err)
	}
	if id, named := sealing.WrappedBy(wrapped); named {
		if _, known := c.Ring.MasterOf(id); !known {
			err = c.reload(ctx) // another process has renewed it
		}
		if errors.Is(err, errUnknownWrapping) {
			err = nil // opening it fails, with a reason
		}
	}
	return wrapped, unavailable("load data key", err)
}

// Delete implements sealing.KeyStore.
func (c *Custody) Delete(ctx context.Context, owner uuid.UUID) error {
	var errs []error
	for _, p := range []place{c.copied, c.former, c.home} {
		if p != nil {
			errs = append(errs, p.Erase(ctx, owner))
		}
	}
	return unavailable("shred data key", errors.Join(errs...))
}

// unavailable marks a failure as one that passes.
func unavailable(what string, err error) error {
	if err == nil || errors.Is(err, command.ErrUnavailable) || errors.Is(err, sealing.ErrShredded) {
		return err
	}
	return fmt.Errorf("%s: %w: %w", what, command.ErrUnavailable, err)
}
