package wire

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"

	"carillon/command"
)

// Checks keeps the first thing that is wrong with a body. A body's Check looks which members are there and of which
// form; the command checks their values, so that the API, the console and the CLI have the same rules.
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

// Filled refuses a member that is present and empty, which a command would take for a missing one.
func (c *Checks) Filled(field string, text Optional[string]) {
	if text.Set && strings.TrimSpace(text.Value) == "" {
		c.Fail(field, "must not be empty")
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

// ReasonHeader carries why a request is made, for auditors.
const ReasonHeader = "X-Carillon-Reason"

// ReasonOf returns why a request is made, which is read as ISO 8859-1 if it is not UTF-8. It is empty if the request
// does not say.
func ReasonOf(r *http.Request) (string, error) {
	values := r.Header.Values(ReasonHeader)
	if len(values) > 1 {
		return "", Fail(BadParam, ReasonHeader, "must be sent once: join the reasons into one text")
	}
	reason := strings.TrimSpace(strings.Join(values, ""))
	if !utf8.ValidString(reason) { // HTTP of old: a byte of ISO 8859-1 is the character of its number
		characters := make([]rune, len(reason))
		for i, b := range []byte(reason) {
			characters[i] = rune(b)
		}
		reason = string(characters)
	}
	return reason, command.CheckReason(ReasonHeader, reason)
}
