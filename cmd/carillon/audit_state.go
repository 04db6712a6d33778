package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/command/plaintext"
	"carillon/eventstore/instant"
	"carillon/query"
)

// stateText is the destination's state at the time, which is printed above the timeline.
func stateText(a adminapi.Audit, zone *time.Location) string {
	var out strings.Builder
	field := func(name, text string) {
		for i, part := range wrap(printable(text), pictureWidth-14) {
			if i > 0 {
				name = ""
			}
			_, _ = fmt.Fprintf(&out, "%-14s%s\n", name, part)
		}
	}
	field("destination", a.Destination.String())
	field("organization", a.Organization.String())
	field("state at", instant.Shown(a.At, zone))
	s := a.State
	if s == nil {
		field("status", "not there yet")
		return out.String()
	}
	status := s.Status
	if s.StatusReason != nil {
		status += ": " + *s.StatusReason
	}
	field("status", status)
	for label, value := range s.Settings().Texts() {
		field(label, value)
	}
	headers := strings.Join(slices.Sorted(maps.Keys(s.Headers)), ", ")
	if headers == "" {
		headers = map[bool]string{true: "some of its own", false: "none of its own"}[s.HasHeaders]
	}
	field("headers", headers)
	name := "secrets"
	for _, secret := range s.Secrets {
		text := secret.ID.String()
		switch {
		case secret.Active && secret.ExpiresAt == nil:
			text += "  no end set"
		case secret.Active:
			text += "  until " + instant.Shown(*secret.ExpiresAt, zone)
		case s.Status == "deleted" && (secret.ExpiresAt == nil || secret.ExpiresAt.After(a.At)):
			text += "  ended with the destination"
		default:
			text += "  ended " + instant.Shown(*secret.ExpiresAt, zone)
		}
		field(name, text)
		name = ""
	}
	name = "subscriptions"
	for _, sub := range s.Subscriptions {
		field(name, subscriptionText(sub))
		name = ""
	}
	return out.String()
}

func subscriptionText(s query.AuditSubscription) string {
	text := short(s.ID) + "  " + strings.Join(s.EventTypes, ", ")
	switch {
	case s.FeedType != nil:
		text += " of all " + *s.FeedType + " feeds"
	case len(s.Feeds) > 0:
		feeds := make([]string, len(s.Feeds))
		for i, f := range s.Feeds {
			feeds[i] = short(f.FeedID)
		}
		text += " of " + strings.Join(feeds, ", ")
	}
	switch {
	case !s.Active && s.Reason != nil:
		text += "; inactive: " + *s.Reason
	case !s.Active:
		text += "; inactive"
	}
	return text
}

func short(id uuid.UUID) string { return id.String()[:8] }

// printable returns a text that others chose so that it can't control the terminal.
func printable(text string) string { return plaintext.Of(text) }

func clip(text string, width int) string {
	if runes := []rune(text); len(runes) > width {
		return string(runes[:width-1]) + "…"
	}
	return text
}

// wrap breaks a text into lines, between words if possible. There is always one line.
func wrap(text string, width int) []string {
	var lines []string
	rest := []rune(text)
	for len(rest) > width {
		at := width
		for i := width; i > width/2; i-- {
			if rest[i] == ' ' {
				at = i
				break
			}
		}
		lines = append(lines, string(rest[:at]))
		rest = []rune(strings.TrimLeft(string(rest[at:]), " "))
	}
	return append(lines, string(rest))
}
