package command

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Bounds of texts that people write, in characters.
const (
	maxNameLength        = 255
	maxReasonLength      = 1000
	maxDescriptionLength = 10_000
	maxCallerReason      = 500 // of Caller.Reason
	maxPersonLength      = 100
)

// CheckReason refuses a reason that can't be Caller.Reason: a long one, and one with control characters.
func CheckReason(field, reason string) error {
	if strings.ContainsFunc(reason, unicode.IsControl) {
		return refuse(Malformed, field, "%s must be plain text in one line: leave out tabs, line breaks and other control "+
			"characters", field)
	}
	return checkText(field, reason, maxCallerReason)
}

// CheckPerson refuses a name that can't be that of a person in an actor: "console:<name>".
func CheckPerson(field, name string) error {
	if strings.ContainsFunc(name, unicode.IsControl) {
		return refuse(Malformed, field, "%s must be plain text in one line", field)
	}
	return requireText(field, name, maxPersonLength)
}

// requireText refuses a blank text, and those that checkText refuses.
func requireText(field, value string, most int) error {
	if strings.TrimSpace(value) == "" {
		return refuse(Malformed, field, "%s must not be empty", field)
	}
	return checkText(field, value, most)
}

// checkText refuses a text that is too long, and one that Postgres can't keep: that would stop every reader of the
// event. Every text that a use case stores passes here, or through a stricter rule.
func checkText(field, value string, most int) error {
	switch {
	case !utf8.ValidString(value):
		return refuse(Malformed, field, "%s must be valid UTF-8", field)
	case strings.ContainsRune(value, 0):
		return refuse(Malformed, field, "%s must not contain NUL characters", field)
	case utf8.RuneCountInString(value) > most:
		return refuse(Malformed, field, "%s must have at most %d characters", field, most)
	}
	return nil
}
