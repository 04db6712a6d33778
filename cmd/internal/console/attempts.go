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

// attemptView is an attempt with its request and its answer.
type attemptView struct {
	query.Attempt

	// Headers are those of the request, without the destination's own. Empty if they can't be restored.
	Headers string
	Answer  string
}

// attemptViews lists the latest attempts of a delivery.
func (c *Console) attemptViews(v *visit, d deliveryView) ([]attemptView, error) {
	latest := d.Attempts[max(0, len(d.Attempts)-maxAttempts):]
	if len(latest) == 0 {
		return nil, nil
	}
	secrets, err := c.secretsSince(v, d, latest[0].AttemptedAt)
	if err != nil {
		return nil, err
	}
	all := make([]attemptView, len(latest))
	for i, attempt := range latest {
		all[i] = attemptView{Attempt: attempt, Headers: headersOf(d, attempt.AttemptedAt, secrets)}
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

// signingSecret is a secret and the time it signed.
type signingSecret struct {
	query.Secret

	opened webhook.Secret
}

// secretsSince opens the secrets that signed at some time since a moment, in the order in which they sign. It returns
// none if the visitor may not read secrets: a signature does not disclose its secret, but is of no use to them
// either.
func (c *Console) secretsSince(v *visit, d deliveryView, since time.Time) ([]signingSecret, error) {
	if !v.session.May(organization.ScopeSecrets) {
		return nil, nil
	}
	then, err := c.Queries.Destination(v.Context(), v.organization(), d.Destination.String(), since)
	if err != nil {
		return nil, err
	}
	var all []signingSecret
	for _, s := range then.Secrets {
		opened, err := c.secret(v.Context(), d.Destination, s.Sealed)
		switch {
		case errors.Is(err, errUnavailable):
		case err != nil:
			return nil, err
		default:
			all = append([]signingSecret{{s, opened}}, all...) // the query returns the newest first
		}
	}
	return all, nil
}

// headersOf restores the headers of an attempt's request: its signatures follow from the secrets that signed then.
func headersOf(d deliveryView, at time.Time, secrets []signingSecret) string {
	var signing []webhook.Secret
	for _, s := range secrets {
		if !s.CreatedAt.After(at) && (s.ExpiresAt == nil || at.Before(*s.ExpiresAt)) {
			signing = append(signing, s.opened)
		}
	}
	text := "content-type: application/json\nwebhook-id: " + d.ID.String() + "\nwebhook-timestamp: " +
		strconv.FormatInt(at.Unix(), 10)
	if len(signing) > 0 {
		text += "\nwebhook-signature: " + webhook.Sign(signing, d.ID.String(), at, d.Body)
	}
	return text
}
