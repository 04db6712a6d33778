package webhook

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/eventstore/instant"
)

// ErrData refuses an envelope whose data is not one JSON value.
var ErrData = errors.New("event data is not valid JSON")

// Envelope is the CloudEvents-style body of a delivery. It stays the same over all attempts.
type Envelope struct {
	ID     string // the published event's id
	Source string
	Type   string
	// Subject is rendered as null if the event has none.
	Subject string
	// Time is rendered as in every answer of the API.
	Time time.Time
	// RecordedAt is when the store recorded the event; it is rendered as the member sequence.
	RecordedAt time.Time
	// FeedType and FeedID are left out if the event belongs to no feed.
	FeedType, FeedID string
	// Data is one JSON value, taken over byte for byte; none means null.
	Data []byte
}

const (
	specVersion     = "1.0"
	dataContentType = "application/json"
	envelopeRoom    = 256 // for member names, the time, and escapes
)

// AppendJSON appends the envelope as one JSON object in a fixed member order, so that equal envelopes give equal bytes.
// Strings that are not valid UTF-8 get the replacement character.
func (e Envelope) AppendJSON(dst []byte) ([]byte, error) {
	data := jsontext.Value(e.Data)
	if len(data) == 0 {
		data = jsontext.Value("null")
	}
	if !data.IsValid(jsontext.AllowDuplicateNames(true)) {
		return dst, fmt.Errorf("event %s: %w", e.ID, ErrData)
	}
	texts := len(e.ID) + len(e.Source) + len(e.Type) + len(e.Subject) + len(e.FeedType) + len(e.FeedID)
	dst = slices.Grow(dst, envelopeRoom+texts+len(data))
	dst = appendString(append(dst, `{"id":`...), e.ID)
	dst = appendString(append(dst, `,"source":`...), e.Source)
	dst = append(dst, `,"specversion":"`+specVersion+`"`...)
	dst = appendString(append(dst, `,"type":`...), e.Type)
	if e.Subject == "" {
		dst = append(dst, `,"subject":null`...)
	} else {
		dst = appendString(append(dst, `,"subject":`...), e.Subject)
	}
	dst = append(dst, `,"time":"`...)
	dst = instant.Append(dst, e.Time)
	dst = append(append(dst, `","sequence":"`...), instant.Sequence(e.RecordedAt)...)
	dst = append(dst, `","datacontenttype":"`+dataContentType+`"`...)
	if e.FeedType != "" {
		dst = appendString(append(dst, `,"feedtype":`...), e.FeedType)
	}
	if e.FeedID != "" {
		dst = appendString(append(dst, `,"feedid":`...), e.FeedID)
	}
	dst = append(dst, `,"data":`...)
	dst = append(dst, data...)
	return append(dst, '}'), nil
}

func appendString(dst []byte, s string) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // its only error reports the replacement
	return dst
}

// relayBase begins the URL of each destination whose webhooks wait for a program that asks for them, in place of being
// sent anywhere. Its host is one that never has an address.
const relayBase = "https://listen.invalid/stream/"

const minRelayToken = 32

// Relay makes transports that hand requests of an organization to a program that listens.
type Relay func(organization uuid.UUID) http.RoundTripper

// RelayToken returns the secret part of a URL of a relayed destination, and "" for all other URLs.
func RelayToken(url string) string {
	token, ok := strings.CutPrefix(url, relayBase)
	if !ok || len(token) < minRelayToken || strings.ContainsAny(token, "/?#") {
		return ""
	}
	return token
}

// via returns the transport of a request.
func (s *Sender) via(r *Request) http.RoundTripper {
	if s.relay != nil && RelayToken(r.URL) != "" {
		return s.relay(r.Organization)
	}
	return r.Via
}

// unprobed is the answer about a URL at which there is nothing to probe.
var unprobed = Reachability{
	FailureReason: delivery.FailureConnection,
	ErrorMessage: "nothing is sent to this address: " +
		"a program takes the webhooks by GET /events/destinations/{ref}/listen",
}
