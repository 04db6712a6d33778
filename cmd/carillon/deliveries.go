package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"carillon/cmd/internal/httpapi"
	"carillon/query"
)

type deliveriesCommand struct {
	List   deliveriesListCommand   `cmd:"" default:"withargs" help:"List deliveries, the newest first."`
	Show   deliveriesShowCommand   `cmd:"" help:"Show a delivery and its attempts."`
	Retry  deliveriesRetryCommand  `cmd:"" help:"Send a delivery now that waits for its retry or debounce window."`
	Replay deliveriesReplayCommand `cmd:"" help:"Send a delivery again that has succeeded or failed."`
}

type deliveriesListCommand struct {
	asking
	Failing     bool     `help:"Only those whose last attempt failed: retrying, or failed permanently." xor:"status"`
	Status      string   `placeholder:"STATUS" help:"Only with this status, or one of several: failed,pending." xor:"status"`
	Destination string   `placeholder:"REF" help:"Only to this destination: its id or externalId."`
	Type        string   `placeholder:"TYPE" help:"Only events of this type, or one of several: news.*,event.item.added."`
	Event       string   `placeholder:"ID" help:"Only of this event."`
	Since       timeFlag `placeholder:"TIME" help:"Only deliveries from this time on: 1h, 7d or 2026-11-21T12:00:00Z."`
	Until       timeFlag `placeholder:"TIME" help:"Only deliveries up to this time, or after the end of a list before."`
	Limit       int      `default:"50" help:"Number of deliveries, at most 100 (${default})."`
}

// Run lists deliveries.
func (c *deliveriesListCommand) Run(ctx context.Context, t terminal) error {
	if c.Failing {
		c.Status = "failing"
	}
	path := "/events/deliveries" + queryOf(c.Limit, map[string]string{
		"status":      c.Status,
		"destination": c.Destination,
		"type":        c.Type,
		"eventId":     c.Event,
		"since":       c.Since.at(t),
		"until":       c.Until.at(t),
	})
	return show(ctx, &c.asking, t.out, http.MethodGet, path, func(w io.Writer, l httpapi.Stretch[query.Delivery]) {
		row(w, "ID", "CREATED", "TYPE", "SUBJECT", "DESTINATION", "STATUS", "ATTEMPTS", "LAST ANSWER")
		for _, d := range l.Items {
			row(w, d.ID, d.CreatedAt, d.Event.Type, orDash(d.Event.Subject), d.To, d.State, d.AttemptCount,
				outcome(d.LastAttempt))
		}
		more(w, l)
	})
}

// outcome returns what came of an attempt, in a few words.
func outcome(a *query.Attempt) string {
	switch {
	case a == nil:
		return "-"
	case a.ResponseStatus != nil:
		return strconv.Itoa(*a.ResponseStatus)
	}
	return orDash(a.FailureReason)
}

type deliveriesShowCommand struct {
	asking
	ID anID `arg:"" help:"The delivery's id, which is the webhook-id."`
}

// Run shows a delivery.
func (c *deliveriesShowCommand) Run(ctx context.Context, t terminal) error {
	path := "/events/deliveries/" + c.ID.UUID().String()
	return show(ctx, &c.asking, t.out, http.MethodGet, path, func(w io.Writer, d httpapi.DeliveryDetail) {
		row(w, "id", d.ID)
		row(w, "destination", d.Destination, d.To)
		row(w, "event", d.EventID, d.Event.Type, orDash(d.Event.Subject))
		row(w, "status", d.State)
		if d.WaitsFor != nil {
			row(w, "waits for", d.WaitsFor.Words())
		}
		if d.NextAttemptAt != nil {
			row(w, "next attempt", d.NextAttemptAt)
		}
		row(w)
		drawAttempts(w, d.Attempts)
		if n := len(d.Attempts); n > 0 && d.Attempts[n-1].ResponseBody != nil && *d.Attempts[n-1].ResponseBody != "" {
			row(w)
			row(w, "last answer", clip(*d.Attempts[n-1].ResponseBody, maxAnswer))
		}
	})
}

// maxAnswer is the number of characters that are shown of an answer. row makes them safe for a terminal.
const maxAnswer = 500

// drawAttempts draws the attempts as a line of time that runs down: each with its result, and the wait before it.
func drawAttempts(w io.Writer, attempts []httpapi.AttemptDetail) {
	if len(attempts) == 0 {
		row(w, "no attempt yet")
	}
	for i := range attempts {
		a, glyph := &attempts[i], "✓"
		if i > 0 {
			row(w, "│ "+a.AttemptedAt.Sub(attempts[i-1].AttemptedAt).Round(time.Second).String())
		}
		if a.FailureReason != nil {
			glyph = "×"
		}
		by := ""
		if a.Trigger == "manual_replay" {
			by = "replay"
		}
		row(w, fmt.Sprintf("%s %d", glyph, a.Number), a.AttemptedAt, outcome(&a.Attempt),
			fmt.Sprintf("%d ms", a.DurationMs), strings.TrimSpace(by+" "+firstLine(a.ErrorMessage)))
	}
}

func firstLine(text *string) string {
	if text == nil {
		return ""
	}
	line, _, _ := strings.Cut(*text, "\n")
	return line
}

type deliveriesRetryCommand struct {
	asking
	because
	ID anID `arg:"" help:"The delivery's id."`
}

// Run makes a delivery that waits due now.
func (c *deliveriesRetryCommand) Run(ctx context.Context, t terminal) error {
	path := "/events/deliveries/" + c.ID.UUID().String() + "/retry"
	c.reason = c.Reason
	return show(ctx, &c.asking, t.out, http.MethodPost, path, func(w io.Writer, r httpapi.Retry) {
		row(w, "next attempt", r.NextAttemptAt, "carillon delivery show "+r.DeliveryID.String())
	})
}

type deliveriesReplayCommand struct {
	asking
	because
	ID anID `arg:"" help:"The delivery's id."`
}

// Run sends a delivery again.
func (c *deliveriesReplayCommand) Run(ctx context.Context, t terminal) error {
	type replay struct {
		DeliveryID string `json:"deliveryId"`
	}
	path := "/events/deliveries/" + c.ID.UUID().String() + "/replay"
	c.reason = c.Reason
	return show(ctx, &c.asking, t.out, http.MethodPost, path, func(w io.Writer, r replay) {
		row(w, "sending "+r.DeliveryID+" again: carillon delivery show "+r.DeliveryID)
	})
}
