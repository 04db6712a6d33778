package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore"
)

func numbered(n int) map[string]string {
	headers := make(map[string]string, n)
	for i := range n {
		headers[fmt.Sprintf("X-%02d", i)] = "v"
	}
	return headers
}

func TestValidateHeaders(t *testing.T) {
	t.Parallel()
	const size = `config.headers must not exceed 8192 bytes in names and values together`
	for _, test := range []struct {
		headers map[string]string
		want    string
	}{
		{nil, ""},
		{map[string]string{"Authorization": "Bearer x", "x-tenant": "ü\tü", "X_y~!#$%&'*+-.^`|": ""}, ""},
		{numbered(20), ""},
		{numbered(21), "config.headers must have at most 20 headers"},
		{map[string]string{"X": strings.Repeat("a", 8191)}, ""},
		{map[string]string{"X": strings.Repeat("a", 8192)}, size},
		{map[string]string{"X": strings.Repeat("ü", 4095) + "a"}, ""},
		{map[string]string{"X": strings.Repeat("ü", 4096)}, size},
		{map[string]string{"": "v"}, `config.headers: "" is not a valid HTTP header name`},
		{map[string]string{"X Y": "v"}, `config.headers: "X Y" is not a valid HTTP header name`},
		{map[string]string{"X:": "v"}, `config.headers: "X:" is not a valid HTTP header name`},
		{map[string]string{"Ü": "v"}, `config.headers: "Ü" is not a valid HTTP header name`},
		{map[string]string{"A\r\nB": "v"}, `config.headers: "A\r\nB" is not a valid HTTP header name`},
		{map[string]string{"X": "a\r\nb: c"}, `config.headers: "X" has a value with a CR, LF or NUL character`},
		{map[string]string{"X": "a\n"}, `config.headers: "X" has a value with a CR, LF or NUL character`},
		{map[string]string{"X": "a\x00"}, `config.headers: "X" has a value with a CR, LF or NUL character`},
		{map[string]string{"X": "a\x1b"}, `config.headers: "X" has a value with a control character`},
		{map[string]string{"X": " a"}, `config.headers: "X" has a value that begins or ends with white space, which HTTP ` +
			`does not carry`},
		{map[string]string{"X": "a\t"}, `config.headers: "X" has a value that begins or ends with white space, which HTTP ` +
			`does not carry`},
		{map[string]string{"TE": "trailers"}, `config.headers: "TE" is reserved: it is about the connection, ` +
			`not the request, and would not arrive as typed`},
		{map[string]string{"x-a": "1", "X-A": "2"}, `config.headers: "x-a" is the same header as "X-A"`},
		{map[string]string{"B!": "", "a b": "", "host": ""}, `config.headers: "a b" is not a valid HTTP header name`},
	} {
		err := ValidateHeaders(test.headers)
		if test.want == "" {
			if err != nil {
				t.Errorf("%.60v: %v", test.headers, err)
			}
			continue
		}
		if err == nil || err.Error() != test.want || !errors.Is(err, ErrHeaders) {
			t.Errorf("%.60v: got %v, want %s", test.headers, err, test.want)
		}
	}
}

func TestReservedHeaders(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"host", "content-length", "transfer-encoding", "connection", "keep-alive", "upgrade", "webhook-id",
		"webhook-timestamp", "webhook-signature", "content-type", "user-agent",
	} {
		for _, spelling := range []string{name, strings.ToUpper(name), strings.ToUpper(name[:1]) + name[1:]} {
			var refused *HeaderError
			err := ValidateHeaders(map[string]string{"x-fine": "v", spelling: "secret-value"})
			if !errors.As(err, &refused) || refused.Name != spelling || refused.Problem != "is reserved" {
				t.Errorf("%s: %v", spelling, err)
			}
		}
	}
}

// The span of an attempt replaces a header of the destination, which stays if the attempt is not traced.
func TestTraceparentReplacesHeader(t *testing.T) {
	t.Parallel()
	const own, span = "00-aa-bb-00", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for _, test := range []struct {
		traceparent string
		want        http.Header
	}{
		{"", http.Header{"TraceParent": {own}}},
		{span, http.Header{"traceparent": {span}}},
	} {
		sent := http.Header{}
		(&Sender{}).setHeaders(sent, Request{
			Headers: map[string]string{"TraceParent": own, "TraceState": "a=b"},
			Trace:   eventstore.Trace{Parent: test.traceparent},
		})
		for name, values := range sent {
			if strings.EqualFold(name, traceparent) && !slices.Equal(test.want[name], values) {
				t.Errorf("%s = %v, want %v", name, values, test.want)
			}
		}
		stale := sent["TraceState"] //nolint:staticcheck // as the destination spells it
		if (stale == nil) != (test.traceparent != "") {
			t.Errorf("traceparent %q beside tracestate %v", test.traceparent, stale)
		}
		for name := range test.want {
			if sent[name] == nil {
				t.Errorf("%s is missing", name)
			}
		}
	}
}
