package console

import (
	"errors"
	"strconv"
	"time"

	"carillon/aggregates/organization"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/query"
)

// tried is an attempt with its request and what was answered.
type tried struct {
	query.Attempt

	Headers string // of its request, but for the destination's own; "": they can't be told any more
	Answer  string
}

// tried lists the latest attempts of a delivery.
func (c *Console) tried(v *visit, d deliveryView) ([]tried, error) {
	latest := d.Attempts[max(0, len(d.Attempts)-shownAttempts):]
	if len(latest) == 0 {
		return nil, nil
	}
	secrets, err := c.secretsSince(v, d, latest[0].AttemptedAt)
	if err != nil {
		return nil, err
	}
	all := make([]tried, len(latest))
	for i, attempt := range latest {
		all[i] = tried{Attempt: attempt, Headers: headersOf(d, attempt.AttemptedAt, secrets)}
		if attempt.ResponseBody == nil {
			continue
		}
		room := answerRoom
		if i == len(latest)-1 {
			room = lastAnswerRoom
		}
		body, err := c.open(v.Context(), d.Destination, sealing.ResponseBody, attempt.ResponseBody)
		switch {
		case errors.Is(err, errUnavailable):
			all[i].Answer = "(can't be read any more)"
		case err != nil:
			return nil, err
		default:
			all[i].Answer = fit(pretty(body), room)
		}
	}
	return all, nil
}

// signer is a secret, and when it signed.
type signer struct {
	query.Secret

	opened webhook.Secret
}

// secretsSince opens those that signed at some time since a moment, in the order in which they sign. There are none for whom
// secrets are not: what one of them made of a body shows nothing of it, but is no concern of theirs either.
func (c *Console) secretsSince(v *visit, d deliveryView, since time.Time) ([]signer, error) {
	if !v.session.May(organization.ScopeSecrets) {
		return nil, nil
	}
	then, err := c.Queries.Destination(v.Context(), v.organization(), d.Destination.String(), since)
	if err != nil {
		return nil, err
	}
	var all []signer
	for _, s := range then.Secrets {
		opened, err := c.secret(v.Context(), d.Destination, s.Sealed)
		switch {
		case errors.Is(err, errUnavailable):
		case err != nil:
			return nil, err
		default:
			all = append([]signer{{s, opened}}, all...) // the query has the newest first
		}
	}
	return all, nil
}

// headersOf are those of the request of an attempt, as they were: signatures follow from the secrets that signed then.
func headersOf(d deliveryView, at time.Time, secrets []signer) string {
	var signing []webhook.Secret
	for _, s := range secrets {
		if !s.CreatedAt.After(at) && (s.ExpiresAt == nil || at.Before(*s.ExpiresAt)) {
			signing = append(signing, s.opened)
		}
	}
	text := "content-type: application/json\nwebhook-id: " + d.ID.String() + "\nwebhook-timestamp: " + strconv.FormatInt(at.Unix(), 10)
	if len(signing) > 0 {
		text += "\nwebhook-signature: " + webhook.Sign(signing, d.ID.String(), at, d.Body)
	}
	return text
}
