package command

import (
	"strings"
	"unicode/utf8"

	"carillon/command/plaintext"
)

// Bounds of texts that people write, in characters.
const (
	maxNameLength        = 255
	maxReasonLength      = 1000
	maxDescriptionLength = 10_000
	maxCallerReason      = 500 // of Caller.Reason
	maxPersonLength      = 100
)

// CheckReason refuses a reason that can't be Caller.Reason.
func CheckReason(field, reason string) error { return checkLine(field, reason, maxCallerReason) }

// CheckPerson refuses a name that can't be that of a person in an actor: "console:<name>".
func CheckPerson(field, name string) error { return requireLine(field, name, maxPersonLength) }

// requireLine refuses a blank text, and those that checkLine refuses. Every name passes here.
func requireLine(field, value string, most int) error {
	if err := requireText(field, value, most); err != nil {
		return err
	}
	return checkLine(field, value, most)
}

// checkLine refuses a text that is not plain or not in one line, and those that checkText refuses.
func checkLine(field, value string, most int) error {
	if err := checkText(field, value, most); err != nil {
		return err
	}
	if !plaintext.Is(value) {
		return refuse(Malformed, field, "%s must be plain text in one line: leave out tabs, line breaks, other control "+
			"characters, and marks of the direction of text", field)
	}
	return nil
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
