package command

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/command/credential"
	"carillon/eventstore"
)

// RegisterOrganization is an operator's input. A zero ID gets a fresh one; with an ID, the same again changes nothing.
type RegisterOrganization struct {
	ID   uuid.UUID
	Name string // required
}

// IssueKey is an operator's input.
type IssueKey struct {
	Organization uuid.UUID
	Name         string               // purpose of the key; may be empty
	Scopes       []organization.Scope // its scopes; none means all
	ExpiresAt    *time.Time           // nil means never
}

// RotateKey is an operator's input.
type RotateKey struct {
	Organization uuid.UUID
	KeyID        string        // the key that gets a successor
	Overlap      time.Duration // how long the key goes on beside its successor; 0: it ends at once
}

// KeyIssued answers IssueKey and RotateKey. Key is the whole key: it can't be shown again.
type KeyIssued struct {
	ID  string
	Key credential.Credential // Reveal returns the text to hand out
}

// RevokeKey is an operator's input.
type RevokeKey struct {
	Organization uuid.UUID
	KeyID        string
}

// RegisterOrganization makes an organization and returns its id.
func (c *Commands) RegisterOrganization(
	ctx context.Context, by Caller, in RegisterOrganization,
) (uuid.UUID, eventstore.Position, error) {
	if err := requireText("name", in.Name, maxNameLength); err != nil {
		return uuid.Nil, eventstore.Start, err
	}
	id := in.ID
	if id == uuid.Nil {
		id = uuid.New()
	}
	by.Organization = id
	out, err := organization.Aggregate.Execute(ctx, c.Store, id,
		organization.Register{Name: in.Name, At: c.now()}, organization.Options{Metadata: by.metadata()})
	return id, out.Position, err
}

// IssueKey makes an API key of an organization.
func (c *Commands) IssueKey(ctx context.Context, by Caller, in IssueKey) (KeyIssued, eventstore.Position, error) {
	if err := checkText("name", in.Name, maxNameLength); err != nil {
		return KeyIssued{}, eventstore.Start, err
	}
	if in.ExpiresAt != nil {
		expiry := in.ExpiresAt.UTC().Truncate(time.Microsecond)
		in.ExpiresAt = &expiry
	}
	if len(in.Scopes) == 0 {
		in.Scopes = organization.AllScopes()
	}
	by.Organization = in.Organization
	key := credential.New(credential.APIKey)
	out, err := organization.Aggregate.Execute(ctx, c.Store, in.Organization, organization.IssueKey{
		KeyID:     key.ID,
		Name:      in.Name,
		Hash:      key.Hash(),
		Scopes:    in.Scopes,
		ExpiresAt: in.ExpiresAt,
		At:        c.now(),
	}, organization.Options{Metadata: by.metadata()})
	if err != nil {
		return KeyIssued{}, eventstore.Start, refused(err)
	}
	return KeyIssued{ID: key.ID, Key: key}, out.Position, nil
}

// RotateKey makes a key with the name, scopes and expiry of another one, which goes on for the overlap.
func (c *Commands) RotateKey(ctx context.Context, by Caller, in RotateKey) (KeyIssued, eventstore.Position, error) {
	if in.Overlap < 0 || in.Overlap > maxOverlap {
		return KeyIssued{}, eventstore.Start, badOverlap()
	}
	by.Organization = in.Organization
	key := credential.New(credential.APIKey)
	out, err := organization.Aggregate.Execute(ctx, c.Store, in.Organization, organization.RotateKey{
		KeyID:   key.ID,
		Of:      in.KeyID,
		Hash:    key.Hash(),
		Overlap: in.Overlap,
		At:      c.now(),
	}, organization.Options{Metadata: by.metadata()})
	if err != nil {
		return KeyIssued{}, eventstore.Start, refused(err)
	}
	return KeyIssued{ID: key.ID, Key: key}, out.Position, nil
}

// RevokeKey ends a key at once. Revoking it again changes nothing.
func (c *Commands) RevokeKey(ctx context.Context, by Caller, in RevokeKey) (eventstore.Position, error) {
	by.Organization = in.Organization
	out, err := organization.Aggregate.Execute(ctx, c.Store, in.Organization,
		organization.RevokeKey{KeyID: in.KeyID, At: c.now()}, organization.Options{Metadata: by.metadata()})
	return out.Position, refused(err)
}

// SetLimits is an operator's input: all limits that differ from the defaults.
type SetLimits struct {
	Organization uuid.UUID
	Limits       organization.Limits
}

// SetLimits replaces the limits of an organization. Things beyond them are kept.
func (c *Commands) SetLimits(ctx context.Context, by Caller, in SetLimits) (eventstore.Position, error) {
	return c.onOrganization(ctx, by, in.Organization, organization.SetLimits{Limits: in.Limits, At: c.now()})
}

// SuspendOrganization is an operator's input.
type SuspendOrganization struct {
	Organization uuid.UUID
	Reason       string // may be empty
}

// SuspendOrganization lets no key of an organization open anything, and its deliveries wait, until it is resumed.
func (c *Commands) SuspendOrganization(
	ctx context.Context, by Caller, in SuspendOrganization,
) (eventstore.Position, error) {
	if err := checkText("reason", in.Reason, maxReasonLength); err != nil {
		return eventstore.Start, err
	}
	suspend := organization.Suspend{Reason: in.Reason, At: c.now()}
	return c.onOrganization(ctx, by.because(in.Reason), in.Organization, suspend)
}

// ResumeOrganization is an operator's input.
type ResumeOrganization struct{ Organization uuid.UUID }

// ResumeOrganization ends a suspension.
func (c *Commands) ResumeOrganization(
	ctx context.Context, by Caller, in ResumeOrganization,
) (eventstore.Position, error) {
	return c.onOrganization(ctx, by, in.Organization, organization.Resume{At: c.now()})
}

// DeleteOrganization is an operator's input.
type DeleteOrganization struct{ Organization uuid.UUID }

// DeleteOrganization ends an organization permanently: its keys at once, and after that, by the cascade of deletions,
// its feeds, its destinations with all that was sealed for them, and their subscriptions and deliveries.
func (c *Commands) DeleteOrganization(
	ctx context.Context, by Caller, in DeleteOrganization,
) (eventstore.Position, error) {
	at, err := c.onOrganization(ctx, by, in.Organization, organization.Delete{At: c.now()})
	c.known.forget(in.Organization)
	return at, err
}

func (c *Commands) onOrganization(
	ctx context.Context, by Caller, id uuid.UUID, command organization.Command,
) (eventstore.Position, error) {
	by.Organization = id
	out, err := organization.Aggregate.Execute(ctx, c.Store, id, command, organization.Options{Metadata: by.metadata()})
	return out.Position, refused(err)
}

// requireOrganization refuses an organization that does not exist.
func (c *Commands) requireOrganization(ctx context.Context, field string, id uuid.UUID) error {
	known, err := organization.Aggregate.Load(ctx, c.Store, id)
	if err == nil && !known.State.Exists() {
		return refuse(NotFound, field, "organization %s does not exist: register it first", id)
	}
	return err
}
