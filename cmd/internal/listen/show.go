package listen

import (
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/command/plaintext"
	"carillon/eventstore/instant"
)

// shown is a webhook in JSON. Its body is the text that was signed.
type shown struct {
	At       time.Time         `json:"at"`
	ID       string            `json:"id"`
	Type     string            `json:"type"`
	Subject  string            `json:"subject"`
	EventID  string            `json:"eventId"`
	Verified bool              `json:"verified"`
	Problem  string            `json:"problem,omitempty"`
	Answered int               `json:"answered"`
	By       string            `json:"by,omitempty"`
	Headers  map[string]string `json:"headers"`
	Body     string            `json:"body"`
}

// show writes a line for a webhook.
func (l *listener) show(w webhook, invalid error, given answer) {
	var envelope struct {
		ID      string `json:"id"`
		Type    string `json:"type"`
		Subject string `json:"subject"`
	}
	_ = json.Unmarshal(w.body, &envelope) // an unsigned body may be anything
	line := shown{
		At:       w.at.UTC(),
		ID:       w.header.Get("webhook-id"),
		Type:     envelope.Type,
		Subject:  envelope.Subject,
		EventID:  envelope.ID,
		Verified: invalid == nil,
		Answered: given.status,
		By:       given.by,
		Headers:  map[string]string{},
		Body:     string(w.body),
	}
	if invalid != nil {
		line.Problem = invalid.Error()
	}
	for name := range w.header {
		line.Headers[strings.ToLower(name)] = strings.Join(w.header[name], ", ")
	}
	text := line.text(l.Zone)
	if l.JSON {
		raw, err := json.Marshal(line, json.Deterministic(true), instant.JSON)
		if err != nil {
			text = fmt.Sprintf("%q", err.Error())
		} else {
			text = string(raw)
		}
	}
	l.print(&l.out, l.Out, text)
}

// text is the line for people.
func (s shown) text(zone *time.Location) string {
	signature := "✓ verified"
	if !s.Verified {
		signature = "✗ NOT VERIFIED: " + s.Problem
	}
	at := instant.Shown(s.At, zone)
	line := fmt.Sprintf("%s  %s  %s  %s  %s  → %d", at, s.Type, s.Subject, s.ID, signature, s.Answered)
	if s.By != "" {
		line += " (" + s.By + ")"
	}
	return plaintext.Of(line)
}

// welcome says what was made.
func (l *listener) welcome(externalID string) {
	l.note("Listening for %s of %s, as the destination %s.", strings.Join(l.Types, ", "), l.API.Base(), externalID)
	if l.Forward != "" {
		l.note("Webhooks go on to %s.", l.Forward)
	}
	l.note("Secret:  %s", l.Secret)
	if l.Example != "" {
		l.note("Publish an example:  %s", l.Example)
	}
	l.note("Ctrl-C stops and removes the destination.")
}
