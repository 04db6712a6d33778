package webhook

import (
	"net/http"
	"strings"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
)

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
