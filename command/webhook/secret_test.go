package webhook

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func mint(tb testing.TB) Secret {
	tb.Helper()
	secret := must.Get(Mint(rand.Reader))(tb)
	return secret
}

func TestSecretRoundTrip(t *testing.T) {
	t.Parallel()
	secret := mint(t)
	full := secret.Reveal()
	assert.True(t, strings.HasPrefix(full, "whsec_") && len(full) == len("whsec_")+44,
		"unexpected form, %d characters", len(full))
	again, err := ParseSecret(full)
	assert.True(t, err == nil && again.Reveal() == full, "parsing back: %v", err)
	assert.True(t, mint(t).Reveal() != full, "different secrets are equal")
	if want := "whsec_…" + full[len(full)-4:]; secret.Masked() != want {
		t.Errorf("masked: %s", secret.Masked())
	}
	zero := (Secret{})
	assert.True(t, zero.Reveal() == "" && zero.Masked() == "", "zero secret")
	assert.Is(t, assert.Err(Mint(strings.NewReader("short"))), io.ErrUnexpectedEOF, "randomness that ends")
	for _, bad := range []string{"", "whsec_", full[6:], "whsec_***", "whsec_c2hvcnQ=",
		"whsec_" + strings.Repeat("AAAA", 22)} {
		if _, err := ParseSecret(bad); !errors.Is(err, ErrSecret) ||
			bad != "" && bad != "whsec_" && strings.Contains(err.Error(), bad) {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestSecretIsNeverPrinted(t *testing.T) {
	t.Parallel()
	secret := mint(t)
	type holder struct {
		Public  Secret
		private Secret
		list    []Secret
		lookup  map[string]Secret
	}
	held := holder{secret, secret, []Secret{secret}, map[string]Secret{"a": secret}}
	var out bytes.Buffer
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t", "%w"} {
		for _, value := range []any{secret, &secret, held, &held, []Secret{secret}} {
			_, _ = fmt.Fprintf(&out, verb, value)
		}
	}
	for _, handler := range []slog.Handler{slog.NewTextHandler(&out, nil), slog.NewJSONHandler(&out, nil)} {
		slog.New(handler).Info("x", "secret", secret, "held", held, "list", held.list, "pointer", &secret)
	}
	marshalled := must.Get(json.Marshal(held))(t)
	out.Write(marshalled)
	out.WriteString(secret.String() + secret.GoString())

	key := secret.bytes()
	spelled := fmt.Sprintf("%d", key)
	for name, leak := range map[string]string{
		"base64": secret.Reveal()[6:], "raw": string(key), "hex": fmt.Sprintf("%x", key), "HEX": fmt.Sprintf("%X", key),
		"numbers": spelled[1 : len(spelled)-1], "tail": secret.Reveal()[40:],
		"quoted": strings.Trim(strconv.Quote(string(key)), `"`),
	} {
		assert.True(t, !strings.Contains(out.String(), leak), "the secret is shown as %s", name)
	}
	assert.True(t, strings.Contains(out.String(), "whsec_…"), "nothing was printed at all")
}

// The example of the Standard Webhooks specification's reference libraries.
func TestSignKnownAnswer(t *testing.T) {
	t.Parallel()
	secret := must.Get(ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"))(t)
	got := Sign([]Secret{secret, secret}, "msg_p5jXN8AQM9LWM0D4loKWxJek", time.Unix(1614265330, 0),
		[]byte(`{"test": 2432232314}`))
	const one = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	assert.Equal(t, got, one+" "+one, "got")
}

func TestEnvelopeBytes(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 21, 3, 4, 5, 678_900_000, time.FixedZone("", 3600))
	full := Envelope{
		ID:         "e1",
		Source:     "/feeds/news/7",
		Type:       "news.item.added",
		Subject:    `a "b"` + "\n<&>",
		Time:       at,
		RecordedAt: at.Add(time.Hour + 999),
		FeedType:   "news",
		FeedID:     "7",
		Data:       []byte(`{"n": 1.0, "dup":1,"dup":2}`),
	}
	for _, test := range []struct {
		name     string
		envelope Envelope
		want     string
	}{
		{"full", full, `{"id":"e1","source":"/feeds/news/7","specversion":"1.0","type":"news.item.added","subject":"a ` +
			`\"b\"\n<&>",` +
			`"time":"2026-11-21T02:04:05.678900Z","sequence":"00001795230245678900",` +
			`"datacontenttype":"application/json","feedtype":"news","feedid":"7",` +
			`"data":{"n": 1.0, "dup":1,"dup":2}}`},
		{"least", Envelope{
			ID:     "e2",
			Source: "s",
			Type:   "t",
			Time:   at.Truncate(time.Second),
		},
			`{"id":"e2","source":"s","specversion":"1.0","type":"t","subject":null,"time":"2026-11-21T02:04:05.000000Z",` +
				`"sequence":"00000000000000000000","datacontenttype":"application/json","data":null}`},
		{"not UTF-8", Envelope{
			ID:     "\xff",
			Source: "s",
			Type:   "t",
			Time:   at,
		},
			`{"id":"` + "\uFFFD" +
				`","source":"s","specversion":"1.0","type":"t","subject":null,"time":"2026-11-21T02:04:05.678900Z",` +
				`"sequence":"00000000000000000000","datacontenttype":"application/json","data":null}`},
	} {
		got, err := test.envelope.AppendJSON([]byte("> "))
		must.True(t, err == nil, "%s: %v", test.name, err)
		if diff := cmp.Diff("> "+test.want, string(got)); diff != "" {
			t.Errorf("%s: %s", test.name, diff)
		}
		assert.True(t, json.Valid(got[2:]), "%s: not JSON", test.name)
	}
}

func TestEnvelopeRefusesBadData(t *testing.T) {
	t.Parallel()
	for _, data := range []string{"{", "1 2", `{"a":1},"id":"forged"`, "\xff", "nul", " "} {
		got, err := Envelope{ID: "e", Data: []byte(data)}.AppendJSON(nil)
		assert.True(t, errors.Is(err, ErrData) && len(got) == 0, "%q: %q, %v", data, got, err)
	}
}

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
			assert.Is(t, err, nil, "%.60v", test.headers)
			continue
		}
		assert.True(t, err != nil && err.Error() == test.want && errors.Is(err, ErrHeaders),
			"%.60v: got %v, want %s", test.headers, err, test.want)
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
			assert.True(t, errors.As(err, &refused) && refused.Name == spelling && refused.Problem == "is reserved",
				"%s: %v", spelling, err)
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
		assert.Equal(t, stale == nil, test.traceparent != "", "traceparent %q beside tracestate %v", test.traceparent, stale)
		for name := range test.want {
			assert.True(t, sent[name] != nil, "%s is missing", name)
		}
	}
}
