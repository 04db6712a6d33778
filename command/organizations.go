package command

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/command/credential"
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

// RevokeKey is an operator's input.
type RevokeKey struct {
	Organization uuid.UUID
	KeyID        string
}

// RegisterOrganization makes an organization.
func (c *Commands) RegisterOrganization(
	ctx context.Context, by Caller, in RegisterOrganization,
) (Result[organization.State], error) {
	if err := requireLine("name", in.Name, maxNameLength); err != nil {
		return Result[organization.State]{}, err
	}
	id := in.ID
	if id == uuid.Nil {
		id = uuid.New()
	}
	return c.onOrganization(ctx, by, id, organization.Register{Name: in.Name, At: c.now()})
}

// IssueKey makes an API key of an organization, which can't be shown again.
func (c *Commands) IssueKey(
	ctx context.Context, by Caller, in IssueKey,
) (issued Result[credential.Credential], err error) {
	if err := checkLine("name", in.Name, maxNameLength); err != nil {
		return issued, err
	}
	if len(in.Scopes) == 0 {
		in.Scopes = organization.AllScopes()
	}
	key := credential.New(credential.APIKey)
	out, err := c.onOrganization(ctx, by, in.Organization, organization.IssueKey{
		KeyID:     key.ID,
		Name:      in.Name,
		Hash:      key.Hash(),
		Scopes:    in.Scopes,
		ExpiresAt: expiry(in.ExpiresAt),
		At:        c.now(),
	})
	if err != nil {
		return issued, err
	}
	return Result[credential.Credential]{Value: key, Position: out.Position}, nil
}

// RotateKey makes a key with the name, scopes and expiry of another one, which goes on for the overlap.
func (c *Commands) RotateKey(
	ctx context.Context, by Caller, in RotateKey,
) (issued Result[credential.Credential], err error) {
	if err := checkOverlap(in.Overlap); err != nil {
		return issued, err
	}
	key := credential.New(credential.APIKey)
	out, err := c.onOrganization(ctx, by, in.Organization, organization.RotateKey{
		KeyID:   key.ID,
		Of:      in.KeyID,
		Hash:    key.Hash(),
		Overlap: in.Overlap,
		At:      c.now(),
	})
	if err != nil {
		return issued, err
	}
	return Result[credential.Credential]{Value: key, Position: out.Position}, nil
}

// RevokeKey ends a key at once. Revoking it again changes nothing.
func (c *Commands) RevokeKey(ctx context.Context, by Caller, in RevokeKey) (Result[organization.State], error) {
	return c.onOrganization(ctx, by, in.Organization, organization.RevokeKey{KeyID: in.KeyID, At: c.now()})
}

// SetLimits is an operator's input: all limits that differ from the defaults.
type SetLimits struct {
	Organization uuid.UUID
	Limits       organization.Limits
}

// SetLimits replaces the limits of an organization. Things beyond them are kept.
func (c *Commands) SetLimits(ctx context.Context, by Caller, in SetLimits) (Result[organization.State], error) {
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
) (Result[organization.State], error) {
	if err := checkLine("reason", in.Reason, maxReasonLength); err != nil {
		return Result[organization.State]{}, err
	}
	suspend := organization.Suspend{Reason: in.Reason, At: c.now()}
	return c.onOrganization(ctx, by.because(in.Reason), in.Organization, suspend)
}

// ResumeOrganization is an operator's input.
type ResumeOrganization struct{ Organization uuid.UUID }

// ResumeOrganization ends a suspension.
func (c *Commands) ResumeOrganization(
	ctx context.Context, by Caller, in ResumeOrganization,
) (Result[organization.State], error) {
	return c.onOrganization(ctx, by, in.Organization, organization.Resume{At: c.now()})
}

// DeleteOrganization is an operator's input.
type DeleteOrganization struct{ Organization uuid.UUID }

// DeleteOrganization ends an organization permanently: its keys at once, and after that, by the cascade of deletions,
// its feeds, its destinations with all that was sealed for them, and their subscriptions and deliveries.
func (c *Commands) DeleteOrganization(
	ctx context.Context, by Caller, in DeleteOrganization,
) (Result[organization.State], error) {
	deleted, err := c.onOrganization(ctx, by, in.Organization, organization.Delete{At: c.now()})
	c.known.cache().Remove(in.Organization)
	return deleted, err
}

// onOrganization runs a command of the organization aggregate.
func (c *Commands) onOrganization(
	ctx context.Context, by Caller, id uuid.UUID, command organization.Command,
) (Result[organization.State], error) {
	by.Organization = id
	out, err := organization.Aggregate.Execute(ctx, c.Store, id, command, organization.Options{Metadata: by.metadata()})
	return resultOf(id, out.Loaded), refused(err)
}

// requireOrganization refuses an organization that does not exist.
func (c *Commands) requireOrganization(ctx context.Context, field string, id uuid.UUID) error {
	known, err := organization.Aggregate.Load(ctx, c.Store, id)
	if err == nil && !known.State.Exists() {
		return refuse(NotFound, field, "organization %s does not exist: register it first", id)
	}
	return err
}
