package wire

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"carillon/command"
)

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
