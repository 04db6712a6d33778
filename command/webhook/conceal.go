package webhook

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/command/egress"
)

const (
	// concealed replaces a destination's secrets in the answers of its receiver: answers are shown to callers with access
	// to deliveries, addresses and headers are not.
	concealed = "[masked]"
	// minValue and minPart are how long a header value, and a part of a value or of an address, is at least that is
	// replaced wherever it stands: shorter ones are words like "v1" and "true", and an answer would not be readable any
	// more.
	minValue = 4
	minPart  = 6
)

// minSigning is the length of the shortest text of a signing secret.
var minSigning = base64.StdEncoding.EncodedLen(minSecretBytes)

// concealer replaces secrets in texts. nil replaces nothing.
type concealer struct {
	own     *strings.Replacer        // of header values and the address
	signing func() *strings.Replacer // of signing secrets. Most answers are too short to show one, and need none.
}

// newConcealer returns what replaces header values, the masked part of an address, and signing secrets: whole, in
// parts, and as they are escaped in URLs, JSON and HTML.
func newConcealer(address string, headers map[string]string, signing ...Secret) *concealer {
	var own secretTexts
	for _, value := range headers {
		own.addValue(value)
	}
	own.addAddress(address)
	return &concealer{own: own.replacer(), signing: sync.OnceValue(func() *strings.Replacer {
		var all secretTexts
		for _, secret := range signing {
			all.addSigning(secret)
		}
		return all.replacer()
	})}
}

// replace returns a text without secrets.
func (c *concealer) replace(text string) string {
	if c == nil {
		return text
	}
	text = c.own.Replace(text)
	if len(text) >= minSigning {
		text = c.signing().Replace(text)
	}
	return text
}

// secretText is a secret, and its replacement.
type secretText struct{ text, instead string }

type secretTexts []secretText

func (s secretTexts) replacer() *strings.Replacer {
	slices.SortStableFunc(s, func(a, b secretText) int { // the longest first: a part does not hide the whole
		return cmp.Or(cmp.Compare(len(b.text), len(a.text)), strings.Compare(a.text, b.text))
	})
	s = slices.CompactFunc(s, func(a, b secretText) bool { return a.text == b.text })
	pairs := make([]string, 0, 2*len(s))
	for _, secret := range s {
		pairs = append(pairs, secret.text, secret.instead)
	}
	return strings.NewReplacer(pairs...)
}

// addValue adds a header value and its parts, such as the token after "Bearer", or what "Basic" encodes.
func (s *secretTexts) addValue(value string) {
	s.add(value, minValue)
	for part := range strings.FieldsSeq(value) {
		if part == value {
			continue
		}
		s.add(part, minPart)
	}
	if encoded, ok := strings.CutPrefix(value, "Basic "); ok {
		if plain, err := base64.StdEncoding.DecodeString(encoded); err == nil {
			s.add(string(plain), minValue)
			_, password, _ := strings.Cut(string(plain), ":")
			s.add(password, minValue)
		}
	}
}

// addSigning adds a signing secret, as a page that prints its program's settings, or bytes, may show it.
func (s *secretTexts) addSigning(secret Secret) {
	full := secret.Reveal()
	for _, text := range [...]string{full, strings.TrimPrefix(full, secretPrefix)} {
		for _, encoded := range [...]string{text, base64.StdEncoding.EncodeToString([]byte(text))} {
			encoded = strings.TrimRight(encoded, "=") // some leave it out
			s.addAs(encoded, concealed)
			s.addAs(urlAlphabet.Replace(encoded), concealed)
		}
	}
	for _, raw := range [...][]byte{secret.bytes(), []byte(full)} {
		digits := hex.EncodeToString(raw)
		s.addAs(digits, concealed)
		s.addAs(strings.ToUpper(digits), concealed)
	}
}

// urlAlphabet turns the alphabet of base64 into that for URLs.
var urlAlphabet = strings.NewReplacer("+", "-", "/", "_")

// addAddress adds what is masked of an address: the target of the request, and those parts that are long enough to be
// recognised by themselves.
func (s *secretTexts) addAddress(address string) {
	if !destination.Hides(address) {
		return
	}
	address, _, _ = strings.Cut(address, "#")
	shown := strings.TrimSuffix(strings.TrimSuffix(destination.Masked(address, nil), "…"), "/")
	_, rest, _ := strings.Cut(address, "://")
	at := strings.IndexAny(rest, "/?")
	if at < 0 {
		return
	}
	_, visible, _ := strings.Cut(shown, "://")
	visible = visible[min(at, len(visible)):]
	path, query, _ := strings.Cut(rest[at:], "?")
	for _, form := range [...]string{rest[at:], path} {
		if hidden := strings.TrimPrefix(form, visible); len(hidden) > 1 {
			s.addAs(form, visible+hidden[:1]+concealed)
			s.add(hidden[1:], minPart)
		}
	}
	for segment := range strings.SplitSeq(strings.TrimPrefix(path, visible), "/") {
		s.add(segment, minPart)
	}
	s.add(query, minPart)
	for pair := range strings.SplitSeq(query, "&") {
		s.add(pair, minPart)
		_, value, _ := strings.Cut(pair, "=")
		s.add(value, minPart)
	}
}

func (s *secretTexts) add(text string, least int) {
	if len(text) >= least {
		s.addAs(text, concealed)
	}
}

// addAs adds a text in all the forms in which an answer may repeat it.
func (s *secretTexts) addAs(text, instead string) {
	forms := []string{text, egress.WireURL("x:///" + text)[len("x:///"):], url.QueryEscape(text), url.PathEscape(text)}
	if plain, err := url.PathUnescape(text); err == nil {
		forms = append(forms, plain)
	}
	if plain, err := url.QueryUnescape(text); err == nil {
		forms = append(forms, plain)
	}
	for _, form := range forms {
		quoted := appendString(nil, form)
		quoted = quoted[1 : len(quoted)-1]
		var careful bytes.Buffer
		json.HTMLEscape(&careful, quoted)
		markup := html.EscapeString(form)
		for _, escaped := range [...]string{
			form, string(quoted), strings.ReplaceAll(string(quoted), "/", `\/`), careful.String(), markup,
			strings.ReplaceAll(markup, "+", "&#43;"), // as html/template writes it
		} {
			*s = append(*s, secretText{escaped, instead})
		}
	}
}

// shown is the receiver's view of a client certificate.
type shown struct {
	certificate bool // the connections show one if the receiver asks
	asked       bool // the receiver asked

	stage *atomic.Pointer[string] // the step that the request waits for
}

// Stages of a request, by what did not come.
const (
	stageName    = "the name was not resolved"
	stageConnect = "no connection was made"
	stageTLS     = "the TLS handshake did not end"
	stageAnswer  = "no answer"
)

func (s *shown) begin(stage string) { s.stage.Store(&stage) }

// late returns what did not come in time.
func (s shown) late(took time.Duration) string {
	missed := stageConnect // a connection that another request opens
	if begun := s.stage.Load(); begun != nil {
		missed = *begun
	}
	return fmt.Sprintf("timeout: %s within %s", missed, took.Round(100*time.Millisecond)) //nolint:mnd // enough for people
}

// refusals are alerts that say something of a certificate. The receiver sends them about ours: its own is checked here.
var refusals = []string{
	"certificate required", "bad certificate", "unsupported certificate", "revoked certificate", "expired certificate",
	"unknown certificate", "unknown certificate authority", "access denied",
}

// refused reports whether a receiver ended the handshake for want of a certificate that it takes, in words for the
// destination's owner.
func (s shown) refused(err error) (refused bool, words string) {
	var op *net.OpError
	if !errors.As(err, &op) || op.Op != "remote error" || op.Err == nil {
		return false, ""
	}
	alert := strings.TrimPrefix(op.Err.Error(), "tls: ")
	switch {
	case !slices.Contains(refusals, alert):
		return false, ""
	case s.certificate:
		return true, "TLS: the receiver refused your organization's client certificate: " + alert
	}
	return true, "TLS: the receiver wants a client certificate (" + alert + "), " +
		"and your organization has none: the operator can set one"
}

// afterFailure is added if a receiver that asked for a certificate closed the connection without an alert.
func (s shown) afterFailure(reason delivery.Failure) string {
	if !s.asked || reason != delivery.FailureTLS && reason != delivery.FailureConnection {
		return ""
	}
	return s.words()
}

// afterStatus returns the addition if a receiver that asked for a certificate denies access; some do so instead of
// ending the handshake.
func (s shown) afterStatus(status int) string {
	if !s.asked || status != http.StatusBadRequest && status != http.StatusUnauthorized && status != http.StatusForbidden {
		return ""
	}
	return s.words()
}

func (s shown) words() string {
	if s.certificate {
		return "; the receiver asked for a client certificate, and was shown your organization's"
	}
	return "; the receiver asked for a client certificate, and your organization has none: the operator can set one"
}
