package command

import (
	"strings"
	"unicode/utf8"
)

// Bounds of texts that people write, in characters.
const (
	maxNameLength        = 255
	maxDescriptionLength = 10_000
)

// requireText refuses an empty text, one with more characters than a number, and what checkText refuses.
func requireText(field, value string, most int) error {
	switch {
	case value == "":
		return refuse(Malformed, field, "%s is required and must not be empty", field)
	case utf8.RuneCountInString(value) > most:
		return refuse(Malformed, field, "%s must have at most %d characters", field, most)
	}
	return checkText(field, value)
}

// checkText refuses what Postgres can't keep as text: it would stop every reader of the event.
func checkText(field, value string) error {
	switch {
	case strings.ContainsRune(value, 0):
		return refuse(Malformed, field, "%s must not contain the character U+0000", field)
	case !utf8.ValidString(value):
		return refuse(Malformed, field, "%s must be valid UTF-8", field)
	}
	return nil
}
