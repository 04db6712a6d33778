package wire

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
)

// Checks keeps the first thing that is wrong with a body. A body's Check goes by the schema of its route; what depends
// on state, or on more than one field, is checked by the command.
type Checks struct{ failure *Failure }

// Fail records that a field is wrong, and how to mend it. The first call wins.
func (c *Checks) Fail(field, issue string, args ...any) {
	if c.failure == nil {
		c.failure = Fail(BadBody, field, issue, args...)
	}
}

// Require records a member that must be there and is not. It reports whether it is.
func (c *Checks) Require(field string, set bool) bool {
	if !set {
		c.Fail(field, "is required")
	}
	return set
}

// Text checks the length of a string, in characters. least 1 also refuses a string of white space only. most 0 means no
// upper bound.
func (c *Checks) Text(field, text string, least, most int) {
	length := utf8.RuneCountInString(text)
	if strings.TrimSpace(text) == "" {
		length = 0
	}
	switch {
	case length < least && least == 1:
		c.Fail(field, "must not be empty")
	case length < least:
		c.Fail(field, "must have at least %d characters", least)
	case most > 0 && length > most:
		c.Fail(field, "must have at most %d characters", most)
	case strings.ContainsRune(text, 0):
		c.Fail(field, "must not contain NUL characters")
	}
}

// Name is Text for a required member.
func (c *Checks) Name(field string, text Optional[string], least, most int) {
	if c.Require(field, text.Set) {
		c.Text(field, text.Value, least, most)
	}
}

// OneOf checks a word.
func (c *Checks) OneOf(field, word string, words ...string) {
	if !slices.Contains(words, word) {
		c.Fail(field, "must be one of %s", strings.Join(words, ", "))
	}
}

// UUID checks and parses an identifier.
func (c *Checks) UUID(field, text string) uuid.UUID {
	id, ok := ParseUUID(text)
	if !ok {
		c.Fail(field, "must be a UUID")
	}
	return id
}

// At names an element of a list: At("feeds", 2, "feedId") is "feeds[2].feedId".
func At(list string, i int, member string) string {
	if member == "" {
		return fmt.Sprintf("%s[%d]", list, i)
	}
	return fmt.Sprintf("%s[%d].%s", list, i, member)
}

// ParseUUID reads the usual form of a UUID, in either case, and no other.
func ParseUUID(text string) (uuid.UUID, bool) {
	if len(text) != 36 {
		return uuid.Nil, false
	}
	id, err := uuid.Parse(text)
	return id, err == nil
}
