package command

import (
	"context"
	"errors"
	"math/rand/v2"
	"regexp"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/externalid"
	"carillon/eventstore"
)

var externalIDForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,255}$`)

// abandonedAfter is far longer than any request takes between claiming a name and recording its bearer.
const abandonedAfter = time.Minute

const unclaimTimeout = 2 * time.Second

// CheckExternalID applies the rules for names that callers give. field is the JSON path to name in the refusal.
func CheckExternalID(field, id string) error {
	switch {
	case !externalIDForm.MatchString(id):
		return refuse(Malformed, field, "%s must be 1 to 255 characters from A-Z a-z 0-9 . _ : -", field)
	case id == "." || id == "..":
		return refuse(Malformed, field, "%s must not be \".\" or \"..\"", field)
	case UUIDShaped(id):
		return refuse(Malformed, field, "%s must not have the form of a UUID", field)
	}
	return nil
}

// UUIDShaped reports whether a path segment is a UUID in its usual form.
func UUIDShaped(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil && len(s) == 36
}

// bears reports whether an owner has the name that it claimed, and whether it is gone and never will have it.
type bears func(ctx context.Context, owner uuid.UUID, externalID string) (borne, gone bool, err error)

// claim reserves a name for an owner. Where another bears it, it returns that owner and ErrTaken. A name whose owner
// does not bear it (the process died before the owner was recorded, or after it was deleted) is taken over.
func (c *Commands) claim(ctx context.Context, by Caller, scope uuid.UUID, externalID string, owner uuid.UUID, bears bears) (taken uuid.UUID, err error) {
	stream := externalid.StreamID(scope, externalID)
	command := externalid.Claim{Scope: scope, ExternalID: externalID, Owner: owner, At: c.now()}
	out, err := externalid.Aggregate.Execute(ctx, c.Store, stream, command, externalid.Options{Metadata: by.metadata()})
	if !errors.Is(err, externalid.ErrTaken) {
		return uuid.Nil, err
	}
	other := out.State
	borne, gone, err := bears(ctx, other.Owner, externalID)
	if err != nil {
		return uuid.Nil, err
	}
	if borne || !gone && command.At.Sub(other.Since) < abandonedAfter {
		return other.Owner, externalid.ErrTaken
	}
	command.Abandoned = other
	out, err = externalid.Aggregate.Execute(ctx, c.Store, stream, command, externalid.Options{Metadata: by.metadata()})
	if errors.Is(err, externalid.ErrTaken) {
		return out.State.Owner, err
	}
	return uuid.Nil, err
}

// release gives a name back. If the process dies before, claim finds out.
func (c *Commands) release(ctx context.Context, by Caller, scope uuid.UUID, externalID string, owner uuid.UUID) error {
	if externalID == "" {
		return nil
	}
	_, err := externalid.Aggregate.Execute(ctx, c.Store, externalid.StreamID(scope, externalID),
		externalid.Release{Owner: owner, At: c.now()}, externalid.Options{Metadata: by.metadata()})
	return err
}

// unclaim gives back the name of what was refused after all. After any other failure of an append it may have been
// made, and the name stays claimed.
func (c *Commands) unclaim(ctx context.Context, by Caller, scope uuid.UUID, externalID string, owner uuid.UUID, cause error) {
	var refusal *Refusal
	if !errors.As(cause, &refusal) && !errors.Is(cause, ErrUnavailable) { // the latter is the vault's, before the append
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), unclaimTimeout)
	defer cancel()
	_ = c.release(ctx, by, scope, externalID, owner) // if that fails too, claim finds out
}

// reserved is the reservation of a name as it is.
func (c *Commands) reserved(ctx context.Context, scope uuid.UUID, externalID string) (eventstore.Loaded[externalid.State], error) {
	return externalid.Aggregate.Load(ctx, c.Store, externalid.StreamID(scope, externalID))
}

// releaseOld gives back the name that an owner bore before it was renamed, if nobody renewed the claim since it was
// loaded: another request may have given the owner its old name again.
//
// A name can't get lost this way. Who gives a name loads the bearer, claims the name, and appends to the bearer at the
// revision that it loaded. Who takes it away loads the bearer, then the reservation, appends, and releases at the
// revision of that reservation. Where the giver's append comes last, its claim came after the taker's load.
func (c *Commands) releaseOld(ctx context.Context, by Caller, scope uuid.UUID, externalID string, old eventstore.Loaded[externalid.State], owner uuid.UUID) error {
	if externalID == "" {
		return nil
	}
	_, err := externalid.Aggregate.Execute(ctx, c.Store, externalid.StreamID(scope, externalID),
		externalid.Release{Owner: owner, At: c.now()},
		externalid.Options{Metadata: by.metadata(), Known: &old, OnlyKnown: true})
	if errors.Is(err, eventstore.ErrWrongRevision) {
		return nil
	}
	return err
}

const (
	namingWait = 10 * time.Second // longer than others take on a busy machine
	namingPoll = 10 * time.Millisecond
)

// errOthersName: the name, or the bearer, is in the hands of another request right now.
var errOthersName = errors.New("another request is about to change this externalId")

// untilNamed tries again while other requests are about to give or take the name, or change its bearer.
func untilNamed(ctx context.Context, try func() error) error {
	for deadline := time.Now().Add(namingWait); ; {
		err := try()
		if !errors.Is(err, errOthersName) && !errors.Is(err, eventstore.ErrWrongRevision) {
			return err
		}
		if time.Now().After(deadline) {
			return &Refusal{Kind: Conflict, Field: "externalId", Message: "other requests are changing this externalId at the same time: try again", Err: err}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(rand.N(2 * namingPoll)): //nolint:gosec // chance only keeps those apart who met once
		}
	}
}
