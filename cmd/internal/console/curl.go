package console

import (
	"strconv"
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/command/delivery/sending"
	"carillon/command/webhook"
	"carillon/query"
)

// envelope returns the body of a delivery's requests, as sent.
func envelope(d query.DeliveryDetail) ([]byte, error) {
	e := d.Event
	body := sending.Body{Event: e.ID, RecordedAt: e.RecordedAt, Published: publication.Published{
		Organization: d.Organization,
		Type:         e.Type,
		Source:       e.Source,
		Subject:      query.Of(e.Subject),
		Time:         e.Time,
		FeedType:     query.Of(e.FeedType),
		FeedID:       query.Of(e.FeedID),
		Data:         d.Data,
	}}
	return body.Bytes()
}

// curl returns a command that sends a delivery without its signature: to try a receiver, one needs the body and the
// id, and a secret does not belong in a shell's history. It is empty if the body is too long.
func curl(url string, id uuid.UUID, body []byte, headers ...string) string {
	lines := make([]string, 0, len(headers)+4)
	lines = append(lines, "curl -X POST "+quoted(text(url)), "  -H 'Content-Type: application/json'")
	for _, header := range append([]string{"webhook-id: " + id.String()}, headers...) {
		lines = append(lines, "  -H "+quoted(header))
	}
	command := strings.Join(append(lines, "  --data-binary "+quoted(escaped(body))), " \\\n")
	if fit(command, curlRoom) != command {
		return ""
	}
	return command
}

// signedCurl is the page of a command with signatures.
type signedCurl struct {
	Command  string
	Delivery uuid.UUID
}

// showSignedCurl answers POST /console/deliveries/{id}/curl: the command with signatures by the current secrets. The
// audit trail records it.
func (c *Console) showSignedCurl(v *visit) (screen, error) {
	d, err := c.delivery(v)
	if err != nil {
		return screen{}, err
	}
	now := c.Now().UTC()
	secrets, err := c.secretsSince(v, d, now)
	if err != nil {
		return screen{}, err
	}
	var signing []webhook.Secret
	var ids []uuid.UUID
	for _, s := range secrets {
		signing, ids = append(signing, s.opened), append(ids, s.ID)
	}
	if len(signing) == 0 {
		return screen{}, errUnavailable
	}
	if err := c.discloseSecrets(v, d.Destination, ids...); err != nil {
		return screen{}, err
	}
	command := curl(d.To.URL, d.ID, d.Body, "webhook-timestamp: "+strconv.FormatInt(now.Unix(), 10),
		"webhook-signature: "+webhook.Sign(signing, d.ID.String(), now, d.Body))
	if command == "" {
		return screen{}, query.ErrNotFound
	}
	return screen{
		Title:    "As a signed curl command",
		Template: "curl",
		Data:     signedCurl{Command: command, Delivery: d.ID},
	}, nil
}

// quoted quotes a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
