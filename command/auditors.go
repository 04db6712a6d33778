package command

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/command/credential"
	"carillon/eventstore"
)

// IssueAuditorToken is an operator's input.
type IssueAuditorToken struct {
	Name         string     // required: whom it is for
	Organization uuid.UUID  // the only one whose audit trail it reads; zero: all
	ExpiresAt    *time.Time // nil means never
}

// RevokeAuditorToken is an operator's input: a token by its public part.
type RevokeAuditorToken struct{ TokenID string }

// AuditorTokenIssued answers IssueAuditorToken. Token is the whole token: it can't be shown again.
type AuditorTokenIssued struct {
	ID    string
	Token credential.Credential // Reveal returns the text to hand out
}

// IssueAuditorToken makes a token that reads the audit trail.
func (c *Commands) IssueAuditorToken(
	ctx context.Context, by Caller, in IssueAuditorToken,
) (AuditorTokenIssued, eventstore.Position, error) {
	if err := requireText("name", in.Name, maxNameLength); err != nil {
		return AuditorTokenIssued{}, eventstore.Start, err
	}
	if in.Organization != uuid.Nil {
		if err := c.requireOrganization(ctx, "organization", in.Organization); err != nil {
			return AuditorTokenIssued{}, eventstore.Start, err
		}
	}
	if in.ExpiresAt != nil {
		expiry := in.ExpiresAt.UTC().Truncate(time.Microsecond)
		in.ExpiresAt = &expiry
	}
	for {
		token := credential.New(credential.AuditorToken)
		out, err := auditor.Aggregate.Execute(ctx, c.Store, auditor.StreamID(token.ID), auditor.Issue{
			TokenID:      token.ID,
			Name:         in.Name,
			Organization: in.Organization,
			Hash:         token.Hash(),
			ExpiresAt:    in.ExpiresAt,
			At:           c.now(),
		}, auditor.Options{Metadata: by.metadata()})
		if errors.Is(err, auditor.ErrTaken) {
			continue // by chance, about once in 2·10¹⁴: the next id is free
		}
		if err != nil {
			return AuditorTokenIssued{}, eventstore.Start, refused(err)
		}
		return AuditorTokenIssued{ID: token.ID, Token: token}, out.Position, nil
	}
}

// RevokeAuditorToken ends a token at once. Revoking it again changes nothing.
func (c *Commands) RevokeAuditorToken(
	ctx context.Context, by Caller, in RevokeAuditorToken,
) (eventstore.Position, error) {
	out, err := auditor.Aggregate.Execute(ctx, c.Store, auditor.StreamID(in.TokenID),
		auditor.Revoke{At: c.now()}, auditor.Options{Metadata: by.metadata()})
	return out.Position, refused(err)
}
