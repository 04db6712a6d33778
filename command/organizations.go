package command

import (
	"context"
	"errors"
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
	Name         string     // what the key is for; may be empty
	ExpiresAt    *time.Time // nil: never
}

// KeyIssued answers IssueKey. Key is the whole key: it can't be shown again.
type KeyIssued struct {
	ID  string
	Key credential.Credential // Reveal gives the text to hand out
}

// RevokeKey is an operator's input.
type RevokeKey struct {
	Organization uuid.UUID
	KeyID        string
}

// RegisterOrganization makes an organization and returns its id.
func (c *Commands) RegisterOrganization(ctx context.Context, by Caller, in RegisterOrganization) (uuid.UUID, eventstore.Position, error) {
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
	if err := checkText("name", in.Name); err != nil {
		return KeyIssued{}, eventstore.Start, err
	}
	if in.ExpiresAt != nil {
		expiry := in.ExpiresAt.UTC().Truncate(time.Microsecond)
		in.ExpiresAt = &expiry
	}
	by.Organization = in.Organization
	key := credential.New(credential.APIKey)
	out, err := organization.Aggregate.Execute(ctx, c.Store, in.Organization, organization.IssueKey{
		KeyID: key.ID, Name: in.Name, Hash: key.Hash(), ExpiresAt: in.ExpiresAt, At: c.now(),
	}, organization.Options{Metadata: by.metadata()})
	if err != nil {
		return KeyIssued{}, eventstore.Start, organizationRefusal(err)
	}
	return KeyIssued{ID: key.ID, Key: key}, out.Position, nil
}

// RevokeKey ends a key at once. Revoking it again changes nothing.
func (c *Commands) RevokeKey(ctx context.Context, by Caller, in RevokeKey) (eventstore.Position, error) {
	by.Organization = in.Organization
	out, err := organization.Aggregate.Execute(ctx, c.Store, in.Organization,
		organization.RevokeKey{KeyID: in.KeyID, At: c.now()}, organization.Options{Metadata: by.metadata()})
	return out.Position, organizationRefusal(err)
}

// requireOrganization refuses an organization that does not exist.
func (c *Commands) requireOrganization(ctx context.Context, field string, id uuid.UUID) error {
	known, err := organization.Aggregate.Load(ctx, c.Store, id)
	if err == nil && !known.State.Registered {
		return refuse(NotFound, field, "organization %s does not exist: register it first", id)
	}
	return err
}

func organizationRefusal(err error) error {
	switch {
	case errors.Is(err, organization.ErrUnknown):
		return &Refusal{Kind: NotFound, Message: "organization not found", Err: err}
	case errors.Is(err, organization.ErrUnknownKey):
		return &Refusal{Kind: NotFound, Message: "key not found: name one by the 8 characters after ck_", Err: err}
	case errors.Is(err, organization.ErrExpired):
		return &Refusal{Kind: Malformed, Field: "expiresAt", Message: "expiresAt must be in the future", Err: err}
	}
	return err
}
