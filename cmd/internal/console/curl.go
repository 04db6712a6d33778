package console

import (
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/command/delivery"
	"carillon/query"
)

// envelope returns the body of a delivery's requests, as sent.
func envelope(d query.DeliveryDetail) ([]byte, error) {
	e := d.Event
	body := delivery.Body{Event: e.ID, Published: publication.Published{
		Organization: d.Organization,
		Type:         e.Type,
		Source:       e.Source,
		Subject:      e.Subject,
		Time:         e.Time,
		FeedType:     e.FeedType,
		FeedID:       e.FeedID,
		Data:         d.Data,
	}}
	return body.Bytes()
}

// curl returns a command that sends a delivery without its signature: to try a receiver, one needs the body and the
// id, and a secret does not belong in a shell's history. It is empty if the body is too long.
func curl(url string, id uuid.UUID, body []byte) string {
	command := strings.Join([]string{
		"curl -X POST " + quoted(text(url)), "  -H 'Content-Type: application/json'", "  -H " + quoted("webhook-id: "+
			id.String()),
		"  --data-binary " + quoted(escaped(body)),
	}, " \\\n")
	if fit(command, curlRoom) != command {
		return ""
	}
	return command
}

// quoted quotes a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
