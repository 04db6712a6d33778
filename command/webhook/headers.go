package webhook

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/http/httpguts"
)

// Limits of a destination's own headers.
const (
	MaxHeaders     = 20
	MaxHeaderBytes = 8 << 10 // names and values together, in UTF-8
)

// ErrHeaders matches every refusal of custom headers, see [HeaderError].
var ErrHeaders = errors.New("unacceptable custom headers")

// HeaderError refuses custom headers. Its text is fit for an API client and never repeats a value.
type HeaderError struct {
	// Name is the header at fault, as the caller spelled it. It is empty for the limits, which no single header breaks.
	Name    string
	Problem string
	limit   bool
}

// Error names the header and the problem.
func (e *HeaderError) Error() string {
	if e.limit {
		return "config.headers " + e.Problem
	}
	return fmt.Sprintf("config.headers: %q %s", cut(e.Name, 100), e.Problem)
}

// Is makes errors.Is(err, ErrHeaders) true.
func (e *HeaderError) Is(target error) bool { return target == ErrHeaders }

// reserved returns why a destination can't have a header: the service sets it, or it would change how the request is
// sent. It returns "" for all others.
func reserved(canonical string) (why string) {
	switch canonical {
	case "Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade",
		"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature", "Content-Type", "User-Agent":
		return "is reserved"
	case "Te", "Trailer", "Expect", "Proxy-Connection":
		return "is reserved: it is about the connection, not the request, and would not arrive as typed"
	}
	return ""
}

// MayBeOwn reports whether a header of a request may be one of its destination's own, whose values are sealed. Of those
// that both can set, it is not known whose they are.
func MayBeOwn(name, value string) bool {
	canonical := http.CanonicalHeaderKey(name)
	return reserved(canonical) == "" && (canonical != "Accept" || value != acceptAll)
}

// ValidateHeaders checks a destination's own headers: at most [MaxHeaders] and [MaxHeaderBytes], names that are HTTP
// tokens and not reserved, values without control characters (a tab is allowed) or white space around them, no name
// twice in different case. The error is a [*HeaderError]; which one of several faults it names does not vary.
func ValidateHeaders(headers map[string]string) error {
	if len(headers) > MaxHeaders {
		return &HeaderError{limit: true, Problem: fmt.Sprintf("must have at most %d headers", MaxHeaders)}
	}
	seen := make(map[string]string, len(headers))
	total := 0
	for _, name := range slices.Sorted(maps.Keys(headers)) {
		value := headers[name]
		total += len(name) + len(value)
		canonical := http.CanonicalHeaderKey(name)
		why := reserved(canonical)
		first, twice := seen[canonical]
		switch {
		case !httpguts.ValidHeaderFieldName(name):
			return &HeaderError{Name: name, Problem: "is not a valid HTTP header name"}
		case why != "":
			return &HeaderError{Name: name, Problem: why}
		case twice:
			return &HeaderError{Name: name, Problem: fmt.Sprintf("is the same header as %q", cut(first, 100))}
		case strings.ContainsAny(value, "\r\n\x00"):
			return &HeaderError{Name: name, Problem: "has a value with a CR, LF or NUL character"}
		case !utf8.ValidString(value):
			return &HeaderError{Name: name, Problem: "has a value that is not valid UTF-8"}
		case !httpguts.ValidHeaderFieldValue(value):
			return &HeaderError{Name: name, Problem: "has a value with a control character"}
		case strings.Trim(value, " \t") != value:
			return &HeaderError{
				Name:    name,
				Problem: "has a value that begins or ends with white space, which HTTP does not carry",
			}
		}
		seen[canonical] = name
	}
	if total > MaxHeaderBytes {
		return &HeaderError{
			limit:   true,
			Problem: fmt.Sprintf("must not exceed %d bytes in names and values together", MaxHeaderBytes),
		}
	}
	return nil
}
