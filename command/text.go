package command

import (
	"strings"
	"unicode/utf8"
)

// requireText refuses an empty text and what checkText refuses.
func requireText(field, value string) error {
	if value == "" {
		return refuse(Malformed, field, "%s is required and must not be empty", field)
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
