package command

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/command/credential"
)

// IssueAuditorToken is an operator's input.
type IssueAuditorToken struct {
	Name         string     // required: whom it is for
	Organization uuid.UUID  // the only one whose audit trail it reads; zero: all
	ExpiresAt    *time.Time // nil means never
}

// RevokeAuditorToken is an operator's input: a token by its public part.
type RevokeAuditorToken struct{ TokenID string }

// IssueAuditorToken makes a token that reads the audit trail. It can't be shown again.
func (c *Commands) IssueAuditorToken(
	ctx context.Context, by Caller, in IssueAuditorToken,
) (issued Result[credential.Credential], err error) {
	if err := requireLine("name", in.Name, maxNameLength); err != nil {
		return issued, err
	}
	if in.Organization != uuid.Nil {
		if err := c.requireOrganization(ctx, "organization", in.Organization); err != nil {
			return issued, err
		}
	}
	for {
		token := credential.New(credential.AuditorToken)
		out, err := auditor.Aggregate.Execute(ctx, c.Store, auditor.StreamID(token.ID), auditor.Issue{
			TokenID:      token.ID,
			Name:         in.Name,
			Organization: in.Organization,
			Hash:         token.Hash(),
			ExpiresAt:    expiry(in.ExpiresAt),
			At:           c.now(),
		}, auditor.Options{Metadata: by.metadata()})
		if errors.Is(err, auditor.ErrTaken) {
			continue // by chance, about once in 2·10¹⁴: the next id is free
		}
		if err != nil {
			return issued, refused(err)
		}
		return Result[credential.Credential]{Value: token, Position: out.Position}, nil
	}
}

// RevokeAuditorToken ends a token at once. Revoking it again changes nothing.
func (c *Commands) RevokeAuditorToken(
	ctx context.Context, by Caller, in RevokeAuditorToken,
) (Result[auditor.State], error) {
	id := auditor.StreamID(in.TokenID)
	out, err := auditor.Aggregate.Execute(ctx, c.Store, id, auditor.Revoke{At: c.now()},
		auditor.Options{Metadata: by.metadata()})
	return resultOf(id, out.Loaded), refused(err)
}
