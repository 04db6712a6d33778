// Package reservation reserves the names that callers choose (externalIds) for their owners, so that of many concurrent
// requests for one name exactly one gets it.
//
//	free ──reserve──▶ reserved ──(the owner is created, or renamed)──▶ owned ──(renamed, or deleted)──▶ release ──▶ free
//
// A reservation and its owner are two streams, so a request can end between the two: its process is killed, or the
// answer of the event store is lost. No reservation blocks a name for that reason:
//
//   - The owner was never created. The next request for the name creates that same owner. Of many concurrent ones,
//     one succeeds, because its stream begins only once.
//   - The owner was deleted. The name is taken over.
//   - The owner has another name, and its stream went on after the reservation. The name is taken over: a rename
//     appends at the revision that it knew before it reserved, so it can't succeed any more.
//   - The owner has another name, and its stream did not go on. It may be renamed at any moment, so others wait. After
//     a minute the request that wanted to rename it is given up, and the name is taken over.
//
// A name is taken over at the revision at which the reservation was looked at: if its owner renews it, or if another
// request is faster, that fails, and the names are looked at again.
package reservation

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/externalid"
	"carillon/eventstore"
)

const (
	// abandonedAfter is far longer than a request needs between a reservation and its append.
	abandonedAfter = time.Minute
	// requestLimit ends a request long before others take its reservation for abandoned.
	requestLimit = abandonedAfter / 2
	// ownerGracePeriod is the time that a request has to create the owner of a reserved name, before others create it.
	ownerGracePeriod = 250 * time.Millisecond

	contention = 10 * time.Second // longer than others take on a busy machine
	pause      = 10 * time.Millisecond
)

// Refusals of a name, besides the errors of the event store and of the passed functions.
var (
	// ErrTaken: another owner has the name.
	ErrTaken = externalid.ErrTaken
	// ErrContended: for 10 s other requests were about to give or take the name, or to change its owner.
	ErrContended = errors.New("other requests are changing this externalId at the same time")
)

// errPending: another request is about to give the name to an owner, or to take it away.
var errPending = errors.New("another request is about to change this externalId")

// Owner is one that has a name, had it, or is about to get it.
type Owner struct {
	ExternalID string // the name that it has; empty: none
	Deleted    bool
	Revision   eventstore.Revision // of its stream; eventstore.NoStream: it was never created
	Position   eventstore.Position // of its newest event
}

// Names are the names of one kind of owner: of destinations, or of subscriptions. Each method runs on behalf of the
// caller in its metadata.
type Names struct {
	Store eventstore.Store
	Now   func() time.Time
	// Owner looks at an owner in the event store.
	Owner func(ctx context.Context, id uuid.UUID) (Owner, error)
}

// Name is unique within its scope: an organization for destinations, a destination for subscriptions.
type Name struct {
	Scope      uuid.UUID
	ExternalID string
}

func (n Name) stream() uuid.UUID { return externalid.StreamID(n.Scope, n.ExternalID) }

// Renaming is an owner that was loaded in order to be renamed.
type Renaming struct {
	Old string // the name that it has; empty: none
	// Rename appends to the owner at the revision at which it was loaded, or fails with eventstore.ErrWrongRevision.
	Rename func(ctx context.Context) error
}

// Create reserves a name for a new owner, which create has to begin under the id that it gets: at eventstore.NoStream,
// or it fails with eventstore.ErrWrongRevision. Where another owner has the name, Create fails with ErrTaken. An empty
// name is not reserved.
func (n Names) Create(
	ctx context.Context, metadata eventstore.Metadata, name Name, create func(context.Context, uuid.UUID) error,
) error {
	if name.ExternalID == "" {
		return create(ctx, uuid.New())
	}
	return n.Upsert(ctx, metadata, name, create, func(context.Context, uuid.UUID) error { return ErrTaken })
}

// Upsert creates the owner of a name as Create does, or replaces the present one. replace fails with
// eventstore.ErrWrongRevision if that owner does not have the name any more.
func (n Names) Upsert(
	ctx context.Context, metadata eventstore.Metadata, name Name, create, replace func(context.Context, uuid.UUID) error,
) error {
	return n.untilSettled(ctx, func(ctx context.Context, waited time.Duration) error {
		found, err := n.read(ctx, name)
		if err != nil {
			return err
		}
		owner := found.State.Owner
		switch found.standing {
		case owned:
			return replace(ctx, owner)
		case pending:
			return errPending
		case ownerless:
			if waited < ownerGracePeriod && found.age < ownerGracePeriod {
				return errPending
			}
		case free, abandoned:
			owner = uuid.New()
		}
		if err := n.reserve(ctx, metadata, name, found, owner); err != nil {
			return err
		}
		return create(ctx, owner)
	})
}

// Rename reserves another name for an owner, and releases the old one. load is called again when someone else was
// faster. Where another owner has the name, Rename fails with ErrTaken.
func (n Names) Rename(
	ctx context.Context, metadata eventstore.Metadata, owner uuid.UUID, name Name,
	load func(context.Context) (Renaming, error),
) error {
	return n.untilSettled(ctx, func(ctx context.Context, _ time.Duration) error {
		renaming, err := load(ctx)
		if err != nil {
			return err
		}
		if renaming.Old == name.ExternalID {
			return renaming.Rename(ctx)
		}
		old := Name{name.Scope, renaming.Old}
		before, err := externalid.Aggregate.Load(ctx, n.Store, old.stream())
		if err != nil {
			return err
		}
		if err := n.reserveFor(ctx, metadata, name, owner); err != nil {
			return err
		}
		if err := renaming.Rename(ctx); err != nil {
			return err
		}
		n.releaseAt(ctx, metadata, old, before, owner)
		return nil
	})
}

// Release frees the name of an owner that was deleted. It can't fail: if the event store can't be reached, the next
// request for the name finds that its owner is gone.
func (n Names) Release(ctx context.Context, metadata eventstore.Metadata, name Name, owner uuid.UUID) {
	if name.ExternalID == "" {
		return
	}
	_, _ = externalid.Aggregate.Execute(ctx, n.Store, name.stream(), externalid.Release{Owner: owner, At: n.now()},
		externalid.Options{Metadata: metadata})
}

// releaseAt frees the old name of an owner that was renamed, unless the reservation was renewed since it was loaded:
// then another request is about to give the owner its old name again. As in Release nothing depends on its success.
//
// A name that an owner has can't be released in this way. Giving a name loads the owner, reserves the name, and appends
// to the owner at the loaded revision. Taking it away loads the owner, then the reservation, appends, and releases at
// the revision of that reservation. If the giving append comes last, its reservation came after the load of the other.
func (n Names) releaseAt(
	ctx context.Context, metadata eventstore.Metadata, old Name, before eventstore.Loaded[externalid.State],
	owner uuid.UUID,
) {
	if old.ExternalID == "" {
		return
	}
	_, _ = externalid.Aggregate.Execute(ctx, n.Store, old.stream(), externalid.Release{Owner: owner, At: n.now()},
		externalid.Options{Metadata: metadata, Known: &before, OnlyKnown: true})
}

// reserveFor reserves a name for an owner that exists. If the owner has the reservation already, it is renewed.
func (n Names) reserveFor(ctx context.Context, metadata eventstore.Metadata, name Name, owner uuid.UUID) error {
	found, err := n.read(ctx, name)
	if err != nil {
		return err
	}
	switch found.standing {
	case free, abandoned:
	case owned:
		if found.State.Owner != owner {
			return ErrTaken
		}
	case ownerless, pending:
		if found.State.Owner != owner && found.age < abandonedAfter {
			return errPending
		}
	}
	return n.reserve(ctx, metadata, name, found, owner)
}

// reserve records a reservation, if the name has not changed since it was loaded. It always appends, so that earlier
// readers of the name get ErrWrongRevision.
func (n Names) reserve(
	ctx context.Context, metadata eventstore.Metadata, name Name, found reserved, owner uuid.UUID,
) error {
	at := n.now()
	if !at.After(found.State.Since) { // another clock is ahead, or too coarse
		at = found.State.Since.Add(time.Microsecond)
	}
	_, err := externalid.Aggregate.Execute(ctx, n.Store, name.stream(),
		externalid.Claim{
			Scope:      name.Scope,
			ExternalID: name.ExternalID,
			Owner:      owner,
			Abandoned:  found.State,
			At:         at,
		},
		externalid.Options{Metadata: metadata, Known: &found.Loaded, OnlyKnown: true})
	return err
}

// standing is the state of a name for a request.
type standing int

const (
	free      standing = iota
	ownerless          // its owner was not created yet
	pending            // its owner may get it at any moment
	owned              // its owner has it
	abandoned          // its owner will never have it
)

// reserved is a reservation as it was looked at.
type reserved struct {
	eventstore.Loaded[externalid.State]

	standing standing
	age      time.Duration
}

func (n Names) read(ctx context.Context, name Name) (reserved, error) {
	loaded, err := externalid.Aggregate.Load(ctx, n.Store, name.stream())
	if err != nil {
		return reserved{}, err
	}
	found := reserved{Loaded: loaded, standing: free, age: n.Now().Sub(loaded.State.Since)}
	if loaded.State.Owner == uuid.Nil {
		return found, nil
	}
	owner, err := n.Owner(ctx, loaded.State.Owner)
	if err != nil {
		return reserved{}, err
	}
	switch {
	case owner.Revision == eventstore.NoStream:
		found.standing = ownerless
	case owner.Deleted:
		found.standing = abandoned
	case owner.ExternalID == name.ExternalID:
		found.standing = owned
	case loaded.Position.Before(owner.Position), found.age >= abandonedAfter:
		found.standing = abandoned
	default:
		found.standing = pending
	}
	return found, nil
}

// untilSettled tries again while other requests are about to give or take the name, or to change its owner.
func (n Names) untilSettled(ctx context.Context, try func(ctx context.Context, waited time.Duration) error) error {
	began := time.Now()
	for {
		err := func() error {
			ctx, cancel := context.WithTimeout(ctx, requestLimit)
			defer cancel()
			return try(ctx, time.Since(began))
		}()
		switch {
		case !errors.Is(err, errPending) && !errors.Is(err, eventstore.ErrWrongRevision):
			return err
		case time.Since(began) >= contention:
			return errors.Join(ErrContended, err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(2 * pause)): //nolint:gosec // chance only keeps those apart who met once
		}
	}
}

// now is the time in the form that events keep: UTC, microseconds.
func (n Names) now() time.Time { return n.Now().UTC().Truncate(time.Microsecond) }
