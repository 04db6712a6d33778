package wire

import (
	"net/http"
	"strings"

	"carillon/command"
)

// ReasonHeader carries why a request is made, for auditors.
const ReasonHeader = "X-Carillon-Reason"

// ReasonOf returns why a request is made. It is empty if the request does not say.
func ReasonOf(r *http.Request) (string, error) {
	values := r.Header.Values(ReasonHeader)
	if len(values) > 1 {
		return "", Fail(BadParam, ReasonHeader, "must be sent once: join the reasons into one text")
	}
	reason := strings.TrimSpace(strings.Join(values, ""))
	return reason, command.CheckReason(ReasonHeader, reason)
}
