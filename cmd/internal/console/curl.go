package console

import (
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/command/delivery"
	"carillon/query"
)

// envelope is the body of a delivery's requests, as it is sent.
func envelope(d query.DeliveryDetail) ([]byte, error) {
	e := d.Event
	body := delivery.Body{Event: e.ID, Published: publication.Published{
		Organization: d.Organization, Type: e.Type, Source: e.Source, Subject: e.Subject, Time: e.Time, FeedType: e.FeedType, FeedID: e.FeedID, Data: d.Data,
	}}
	return body.Bytes()
}

// curl is a command that sends what a delivery sends, but for the signature: who tries a receiver by hand wants the body
// and the id, and a command in a shell's history is no place for a secret. It is empty where the body is too long.
func curl(url string, id uuid.UUID, body []byte) string {
	command := strings.Join([]string{
		"curl -X POST " + quoted(text(url)), "  -H 'Content-Type: application/json'", "  -H " + quoted("webhook-id: "+id.String()),
		"  --data-binary " + quoted(escaped(body)),
	}, " \\\n")
	if fit(command, curlRoom) != command {
		return ""
	}
	return command
}

// quoted is a text as one word of a shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
