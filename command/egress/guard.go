package egress

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// Resolver looks names up; [*net.Resolver] is one.
type Resolver interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
}

// resolveTimeout bounds the look-up at write time, so that a dead name server costs a request seconds, not minutes.
const resolveTimeout = 5 * time.Second

// Guard is a policy that also asks DNS: the check for the moment a URL is written. It does not replace the check at
// dial time.
type Guard struct {
	Policy Policy
	// Resolver defaults to Go's own resolver, never the C library's.
	Resolver Resolver
}

// CheckURL is [Policy.CheckURL] followed by [Guard.CheckHost] on its host, both answering with a [*URLError].
func (g Guard) CheckURL(ctx context.Context, field, raw string) (*url.URL, error) {
	u, err := g.Policy.CheckURL(field, raw)
	if err != nil {
		return nil, err
	}
	_, err = g.CheckHost(ctx, u.Hostname())
	switch {
	case errors.Is(err, ErrBlocked):
		return nil, urlField(field).blocked(err)
	case err != nil:
		return nil, err
	}
	return u, nil
}

// CheckHost resolves a host (no port, no brackets) and returns the addresses that may be reached. It fails with a
// [*BlockedError] when the name resolves and no address is permitted. A name that does not resolve is no error and
// gives no addresses: it is unreachable now and may be set up later. Other errors mean that the host is malformed or
// that ctx was cancelled.
func (g Guard) CheckHost(ctx context.Context, hostname string) ([]netip.Addr, error) {
	h, err := parseHost(hostname)
	if err != nil {
		return nil, err
	}
	if len(h.addrs) > 0 {
		if err := g.Policy.checkAll(h.addrs); err != nil {
			return nil, err
		}
		return h.addrs, nil
	}
	resolver := g.Resolver
	if resolver == nil {
		resolver = goResolver
	}
	lookup, cancel := context.WithTimeout(ctx, resolveTimeout)
	defer cancel()
	found, err := resolver.LookupNetIP(lookup, "ip", h.name)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, fmt.Errorf("resolving host: %w", ctx.Err())
		}
		return nil, nil // not resolving is an answer, not a failure
	}
	return g.Policy.permitted(found)
}

// permitted keeps the addresses that may be reached; none of some is an error that names the first.
func (p Policy) permitted(found []netip.Addr) ([]netip.Addr, error) {
	var refused error
	kept := make([]netip.Addr, 0, len(found))
	for _, addr := range found {
		addr = addr.Unmap()
		if err := p.Check(addr); err == nil {
			kept = append(kept, addr)
		} else if refused == nil {
			refused = err
		}
	}
	if len(kept) == 0 && refused != nil {
		return nil, refused
	}
	return kept, nil
}

// goResolver avoids the C library, whose inet_aton turns names such as 0x7f.1 into addresses.
var goResolver = &net.Resolver{PreferGo: true}

// addresses matches URLs in a text, such as the errors of http.Client quote them.
var addresses = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

// ShownAddress returns the origin of a configured URL for logs, errors and pages: user, path and parameters often are
// the secret itself, and are replaced by "…".
func ShownAddress(raw string) string {
	scheme, rest, _ := strings.Cut(raw, "://")
	host, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, path = rest[:end], rest[end:]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= len(host) { // a user or password with a slash
		return scheme + "://…"
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	if path == "" || path == "/" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + "/…"
}

// HideAddresses returns an error whose text has all URLs as ShownAddress shows them. The error itself is not wrapped,
// so that none of its parts can be logged. nil stays nil.
func HideAddresses(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(addresses.ReplaceAllStringFunc(err.Error(), ShownAddress))
}
