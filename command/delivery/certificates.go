package delivery

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/delivery"
	"carillon/command"
	"carillon/command/mtls"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// Cache limits: connections that show certificates, by organization, and organizations without one.
const (
	maxShown   = 1000
	maxWithout = 10_000
)

// Certificates provides the connections that show the client certificate of an organization. No two organizations
// share any, nor TLS sessions: a resumed session counts as the one that began it. Its answers are always current,
// and cached while Run follows the events.
type Certificates struct {
	Store eventstore.Store
	Vault Vault
	// Connect makes connections that show a certificate; egress.NewTransport does.
	Connect func(*tls.Certificate) *http.Transport
	Log     *slog.Logger

	mu        sync.Mutex
	following bool
	changes   uint64 // counts changes: a value read before a change is not kept after it
	shown     map[uuid.UUID]*connections
	without   map[uuid.UUID]struct{}
}

// connections show one certificate.
type connections struct {
	*http.Transport

	retired  atomic.Bool
	lastUsed time.Time // guarded by Certificates.mu
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

func (c *connections) retire() {
	c.retired.Store(true)
	c.CloseIdleConnections()
}

// ErrCertificateLost: the private key of an organization's certificate can't be opened any more, although the
// certificate was neither replaced nor removed.
var ErrCertificateLost = errors.New("the private key of the organization's client certificate can't be opened")

// certificateLostMessage shows the destination's owner why nothing is sent, and who repairs it.
const certificateLostMessage = "the private key of your organization's client certificate can't be read any " +
	"more: the operator must set the certificate anew"

// certificateLost fails each request while a certificate is lost: none is sent without it.
func certificateLost() webhook.Result {
	return webhook.Result{FailureReason: delivery.FailureTLS, ErrorMessage: certificateLostMessage}
}

// For returns the connections of an organization; nil means it has no certificate and uses the shared ones. It
// fails with ErrCertificateLost, with command.ErrUnavailable if that is temporary, and with
// eventstore.ErrUndecodable.
func (c *Certificates) For(ctx context.Context, organization uuid.UUID) (http.RoundTripper, error) {
	if c == nil {
		return nil, nil //nolint:nilnil // no certificates are used
	}
	c.mu.Lock()
	changes := c.changes
	found, known := c.shown[organization]
	_, none := c.without[organization]
	if known {
		found.lastUsed = time.Now()
	}
	c.mu.Unlock()
	switch {
	case known:
		return found, nil
	case none:
		return nil, nil //nolint:nilnil // it is known to have none
	}
	certificate, err := c.open(ctx, organization)
	if err != nil {
		return nil, err
	}
	return c.keep(organization, certificate, changes), nil
}

// open reads the certificate that an organization shows, and opens its key; nil: it shows none.
func (c *Certificates) open(ctx context.Context, organization uuid.UUID) (*tls.Certificate, error) {
	var tried uuid.UUID
	for {
		known, err := clientcertificate.Aggregate.Load(ctx, c.Store, organization)
		switch {
		case errors.Is(err, eventstore.ErrUnavailable):
			return nil, fmt.Errorf("client certificate: %w: %w", command.ErrUnavailable, err)
		case err != nil:
			return nil, fmt.Errorf("client certificate: %w", err)
		case !known.State.Exists():
			return nil, nil //nolint:nilnil // it shows none
		}
		shown := known.State.Certificate
		plain, err := c.Vault.Open(ctx, shown.ID, sealing.PrivateKey, shown.Key)
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

// keep caches opened connections, unless something has changed since they were read.
func (c *Certificates) keep(organization uuid.UUID, certificate *tls.Certificate, changes uint64) http.RoundTripper {
	var opened *connections
	if certificate != nil {
		opened = &connections{Transport: c.Connect(certificate), lastUsed: time.Now()}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	stays := c.following && c.changes == changes
	switch {
	case opened == nil:
		if stays {
			c.keepWithout(organization)
		}
		return nil
	case !stays:
		opened.retired.Store(true)
		return opened
	}
	if other, known := c.shown[organization]; known { // another caller has opened the same one meanwhile
		return other
	}
	if len(c.shown) >= maxShown {
		c.dropOldest()
	}
	c.shown[organization] = opened
	return opened
}

func (c *Certificates) keepWithout(organization uuid.UUID) {
	if len(c.without) >= maxWithout {
		clear(c.without)
	}
	c.without[organization] = struct{}{}
}

// dropOldest retires the least recently used connections.
func (c *Certificates) dropOldest() {
	var oldest uuid.UUID
	for organization, held := range c.shown {
		if first, chosen := c.shown[oldest]; !chosen || held.lastUsed.Before(first.lastUsed) {
			oldest = organization
		}
	}
	c.shown[oldest].retire()
	delete(c.shown, oldest)
}

// Run follows changes of certificates until the context ends: connections with a replaced certificate close, and
// the next ones show the current one.
func (c *Certificates) Run(ctx context.Context) {
	for ctx.Err() == nil { // again when the store has become another one
		c.fromHead(ctx)
	}
}

func (c *Certificates) fromHead(ctx context.Context) {
	head, err := awaitHead(ctx, c.Store)
	if err != nil {
		return
	}
	stop := func() { c.follow(false) }
	defer stop()
	filter := eventstore.Categories(clientcertificate.Aggregate.Category)
	log := c.Log.With("consumer", "client certificates")
	for m := range eventstore.FollowUnbroken(ctx, c.Store, head, filter, log, stop) {
		switch {
		case m.CaughtUp:
			c.follow(true)
		case m.Event != nil:
			c.forget(m.Event.StreamID())
		}
	}
}

// follow starts or stops caching.
func (c *Certificates) follow(following bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.following == following {
		return
	}
	c.following = following
	c.changes++
	for _, held := range c.shown {
		held.retire()
	}
	c.shown, c.without = map[uuid.UUID]*connections{}, map[uuid.UUID]struct{}{}
}

// forget drops the cached state of an organization whose certificate has changed.
func (c *Certificates) forget(organization uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	if held, known := c.shown[organization]; known {
		held.retire()
		delete(c.shown, organization)
	}
	delete(c.without, organization)
}

// Prober probes endpoints as deliveries of an organization reach them. It implements command.Prober.
type Prober struct {
	Certificates *Certificates
	Sender       *webhook.Sender
}

// Probe implements command.Prober.
func (p Prober) Probe(ctx context.Context, organization uuid.UUID, url string) webhook.Reachability {
	via, err := p.Certificates.For(ctx, organization)
	switch {
	case errors.Is(err, ErrCertificateLost):
		return webhook.Reachability{FailureReason: delivery.FailureTLS, ErrorMessage: certificateLostMessage}
	case err != nil:
		return webhook.Reachability{FailureReason: delivery.FailureConnection,
			ErrorMessage: "your organization's client certificate can't be read now: try again"}
	}
	return p.Sender.Probe(ctx, via, url)
}
