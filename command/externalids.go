package command

import (
	"context"
	"errors"
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
	order := externalid.Claim{Scope: scope, ExternalID: externalID, Owner: owner, At: c.now()}
	out, err := eventstore.Execute(ctx, c.Store, externalid.Aggregate, stream, externalid.Command(order), by.context())
	if !errors.Is(err, externalid.ErrTaken) {
		return uuid.Nil, err
	}
	other := out.State
	borne, gone, err := bears(ctx, other.Owner, externalID)
	if err != nil {
		return uuid.Nil, err
	}
	if borne || !gone && order.At.Sub(other.Since) < abandonedAfter {
		return other.Owner, externalid.ErrTaken
	}
	order.Abandoned = other.Owner
	out, err = eventstore.Execute(ctx, c.Store, externalid.Aggregate, stream, externalid.Command(order), by.context())
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
	_, err := eventstore.Execute(ctx, c.Store, externalid.Aggregate, externalid.StreamID(scope, externalID),
		externalid.Command(externalid.Release{Owner: owner, At: c.now()}), by.context())
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

const (
	upsertWait = 10 * time.Second // longer than the other takes on a busy machine: an upsert should find nothing missing
	upsertPoll = 10 * time.Millisecond
)

// onceRecorded replaces what another request has just claimed the name of, and waits until that one has recorded it.
func onceRecorded(ctx context.Context, replace func() (eventstore.Position, error)) (eventstore.Position, error) {
	deadline := time.Now().Add(upsertWait)
	for {
		at, err := replace()
		var refusal *Refusal
		if !errors.As(err, &refusal) || refusal.Kind != NotFound || time.Now().After(deadline) {
			return at, err
		}
		select {
		case <-ctx.Done():
			return at, ctx.Err()
		case <-time.After(upsertPoll):
		}
	}
}
