package command

import (
	"context"
	"errors"
	"regexp"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/aggregates/operator"
	"carillon/command/credential"
)

// UsualOverlap is how long a rotated token of an operator, or a rotated API key, stays valid by default.
const UsualOverlap = 24 * time.Hour

// maxOverlap is how long what is rotated, a key or a token, may go on beside its successor.
const maxOverlap = 30 * 24 * time.Hour

// OverlapOf is an overlap of some seconds; the commands refuse values out of range.
func OverlapOf(seconds int) time.Duration {
	if seconds < 0 || seconds > int(maxOverlap.Seconds()) {
		return -1
	}
	return time.Duration(seconds) * time.Second
}

// operatorName leaves no two names that look alike, and needs no escapes in paths and actors.
var operatorName = regexp.MustCompile(`^[a-z0-9][a-z0-9._@-]{0,63}$`)

// IssueOperatorToken is an operator's input.
type IssueOperatorToken struct {
	Name      string     // required: whom it is for
	ExpiresAt *time.Time // nil means never
}

// RotateOperatorToken is an operator's input.
type RotateOperatorToken struct {
	Name    string
	Overlap time.Duration // how long the tokens before go on; 0: they end at once
}

// RevokeOperator is an operator's input.
type RevokeOperator struct{ Name string }

// IssueOperatorToken admits an operator by name. The token can't be shown again.
func (c *Commands) IssueOperatorToken(
	ctx context.Context, by Caller, in IssueOperatorToken,
) (issued Result[credential.Credential], err error) {
	if !operatorName.MatchString(in.Name) {
		return issued, refuse(Malformed, "name",
			"name must have 1 to 64 characters of a-z 0-9 . _ @ - and begin with a letter or digit, such as ann or "+
				"ann@example.org")
	}
	token := credential.New(credential.OperatorToken)
	out, err := c.onOperator(ctx, by, in.Name, operator.Issue{
		Name:      in.Name,
		TokenID:   token.ID,
		Hash:      token.Hash(),
		ExpiresAt: expiry(in.ExpiresAt),
		At:        c.now(),
	})
	if err != nil {
		return issued, err
	}
	return Result[credential.Credential]{Value: token, Position: out.Position}, nil
}

// RotateOperatorToken issues another token for an operator; the former ones end after the overlap.
func (c *Commands) RotateOperatorToken(
	ctx context.Context, by Caller, in RotateOperatorToken,
) (issued Result[credential.Credential], err error) {
	if err := checkOverlap(in.Overlap); err != nil {
		return issued, err
	}
	token := credential.New(credential.OperatorToken)
	out, err := c.onOperator(ctx, by, in.Name, operator.Rotate{
		TokenID: token.ID,
		Hash:    token.Hash(),
		Overlap: in.Overlap,
		At:      c.now(),
	})
	if err != nil {
		return issued, err
	}
	return Result[credential.Credential]{Value: token, Position: out.Position}, nil
}

func checkOverlap(overlap time.Duration) error {
	if overlap < 0 || overlap > maxOverlap {
		return refuse(Malformed, "overlapSeconds", "overlapSeconds must be 0 to %d, which is 30 days",
			int(maxOverlap.Seconds()))
	}
	return nil
}

// RevokeOperator ends all tokens of an operator at once. Revoking them again changes nothing.
func (c *Commands) RevokeOperator(ctx context.Context, by Caller, in RevokeOperator) (Result[operator.State], error) {
	return c.onOperator(ctx, by, in.Name, operator.Revoke{At: c.now()})
}

// RecordAction is an operator's action without another event.
type RecordAction struct {
	Action  string // a word, such as "renew-keys"
	Subject string // object of the action; may be empty
}

// RecordAction records an action under the name of who does it, before it is done.
func (c *Commands) RecordAction(ctx context.Context, by Caller, in RecordAction) error {
	if err := checkText("subject", in.Subject, maxReasonLength); err != nil {
		return err
	}
	_, err := operator.Aggregate.Execute(ctx, c.Store, uuid.New(), operator.Act{
		Action:  in.Action,
		Subject: in.Subject,
		At:      c.now(),
	},
		operator.Options{Metadata: by.metadata()})
	return err
}

func (c *Commands) onOperator(
	ctx context.Context, by Caller, name string, command operator.Command,
) (Result[operator.State], error) {
	id := operator.StreamID(name)
	out, err := operator.Aggregate.Execute(ctx, c.Store, id, command, operator.Options{Metadata: by.metadata()})
	return resultOf(id, out.Loaded), refused(err)
}

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
