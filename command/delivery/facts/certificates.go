package facts

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/delivery"
	"carillon/command"
	"carillon/command/mtls"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// connections show the client certificate of one organization. No two organizations share any, nor TLS sessions: a
// resumed session counts as the one that began it.
type connections struct {
	*http.Transport

	retired atomic.Bool
}

// RoundTrip implements http.RoundTripper. A retired transport is used only by requests that already had it, and
// closes its connections after them.
func (c *connections) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := c.Transport.RoundTrip(r)
	if c.retired.Load() {
		c.CloseIdleConnections() // from now on until the next request, it closes each that is done
	}
	return answer, err
}

// retire closes the connections after the requests that use them. nil shows no certificate.
func (c *connections) retire() {
	if c == nil {
		return
	}
	c.retired.Store(true)
	c.CloseIdleConnections()
}

// ErrCertificateLost: the private key of an organization's certificate can't be opened any more, although the
// certificate was neither replaced nor removed.
var ErrCertificateLost = errors.New("the private key of the organization's client certificate can't be opened")

// certificateLostMessage shows the destination's owner why nothing is sent, and who repairs it.
const certificateLostMessage = "the private key of your organization's client certificate can't be read any " +
	"more: the operator must set the certificate anew"

// CertificateLost fails each request while a certificate is lost: none is sent without it.
func CertificateLost() webhook.Result {
	return webhook.Result{FailureReason: delivery.FailureTLS, ErrorMessage: certificateLostMessage}
}

// Connections returns those of an organization; nil means it has no certificate and uses the shared ones. It fails
// with ErrCertificateLost, with command.ErrUnavailable if that is temporary, and with eventstore.ErrUndecodable.
func (f *Follower) Connections(ctx context.Context, organization uuid.UUID) (http.RoundTripper, error) {
	if f == nil || f.Connect == nil {
		return nil, nil //nolint:nilnil // no certificates are used
	}
	f.init()
	found, err := f.certificates.get(ctx, organization)
	if found == nil {
		return nil, err
	}
	return found, err
}

// connect opens the certificate of an organization, and makes connections that show it.
func (f *Follower) connect(ctx context.Context, organization uuid.UUID) (*connections, error) {
	certificate, err := f.openCertificate(ctx, organization)
	if certificate == nil {
		return nil, err
	}
	return &connections{Transport: f.Connect(certificate)}, err
}

// openCertificate reads the certificate that an organization shows, and opens its key; nil: it shows none.
func (f *Follower) openCertificate(ctx context.Context, organization uuid.UUID) (*tls.Certificate, error) {
	var tried uuid.UUID
	for {
		known, err := clientcertificate.Aggregate.Load(ctx, f.Store, organization)
		switch {
		case errors.Is(err, eventstore.ErrUnavailable):
			return nil, fmt.Errorf("client certificate: %w: %w", command.ErrUnavailable, err)
		case err != nil:
			return nil, fmt.Errorf("client certificate: %w", err)
		case !known.State.Exists():
			return nil, nil //nolint:nilnil // it shows none
		}
		shown := known.State.Certificate
		plain, err := f.Vault.Open(ctx, shown.ID, sealing.PrivateKey, shown.Key)
		if err == nil {
			return mtls.Open(shown.Chain, plain)
		}
		if !errors.Is(err, sealing.ErrShredded) && !errors.Is(err, sealing.ErrDamaged) {
			return nil, fmt.Errorf("open client certificate: %w", err)
		}
		if tried == shown.ID { // it was not replaced meanwhile
			return nil, fmt.Errorf("%w: %w", ErrCertificateLost, err)
		}
		tried = shown.ID
	}
}

// Prober probes endpoints as deliveries of an organization reach them. It implements command.Prober.
type Prober struct {
	Facts  *Follower
	Sender *webhook.Sender
}

// Probe implements command.Prober.
func (p Prober) Probe(ctx context.Context, organization uuid.UUID, url string) webhook.Reachability {
	via, err := p.Facts.Connections(ctx, organization)
	switch {
	case errors.Is(err, ErrCertificateLost):
		return webhook.Reachability{FailureReason: delivery.FailureTLS, ErrorMessage: certificateLostMessage}
	case err != nil:
		return webhook.Reachability{FailureReason: delivery.FailureConnection,
			ErrorMessage: "your organization's client certificate can't be read now: try again"}
	}
	return p.Sender.Probe(ctx, via, url)
}
