package console

import (
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

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
	// Received are the headers of the answer. Empty if it was a success, or none came.
	Received string
	// SameAs is the number of the next later attempt with the same answer, which is shown there. Optional.
	SameAs int
}

// attemptViews lists the latest attempts of a delivery, newest first.
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
	seen := map[string]int{} // answers by the attempt that shows them
	for i := range all {
		attempt := latest[len(latest)-1-i]
		all[i] = attemptView{Attempt: attempt, Headers: headersOf(d, attempt.AttemptedAt, secrets)}
		if all[i].Received, err = c.receivedHeaders(v, d.Destination, attempt.ResponseHeaders); err != nil {
			return nil, err
		}
		if attempt.ResponseBody == nil {
			continue
		}
		room := answerRoom
		if i == 0 {
			room = lastAnswerRoom
		}
		body, err := c.open(v.Context(), d.Destination, sealing.ResponseBody, attempt.ResponseBody)
		switch {
		case errors.Is(err, errUnavailable):
			all[i].Answer = lostAnswer
		case err != nil:
			return nil, err
		case seen[string(body)] != 0:
			all[i].SameAs = seen[string(body)]
		default:
			all[i].Answer, seen[string(body)] = fit(pretty(body), room), attempt.Number
		}
	}
	return all, nil
}

// lostAnswer stands for an answer whose data key is gone.
const lostAnswer = "(can't be read any more)"

// headerRoom bounds the headers of an answer on a page.
const headerRoom = 2_000

// receivedHeaders opens the headers of an answer.
func (c *Console) receivedHeaders(v *visit, destination uuid.UUID, sealed []byte) (string, error) {
	if sealed == nil {
		return "", nil
	}
	headers, err := c.open(v.Context(), destination, sealing.ResponseHeaders, sealed)
	if errors.Is(err, errUnavailable) {
		return lostAnswer, nil
	}
	return fit(revealed(string(headers), code, hidden), headerRoom), err
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
