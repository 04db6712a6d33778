// Package egress is the guarded way out of the program: every outgoing connection, whether a delivery, a test, a probe
// or a collector's fetch, goes through a transport made here.
//
// The rule is applied twice. [Policy.CheckURL] and [Guard] judge a URL when it is written, so that a caller gets a
// clear answer at once. The transport of [NewTransport] judges the resolved address again when it is dialled, after DNS
// has spoken and before a packet leaves; that is the check that counts, since a name may change its address between the
// two (DNS rebinding).
//
// Denied are every range of the IANA special-purpose registries, multicast, and the platform address of Azure. Of
// IPv6 only 2000::/3 is considered at all. Addresses that carry an IPv4 address are judged by that address as well.
package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"

	"carillon/aggregates/delivery"
)

// ErrBlocked matches every refusal of an address, see [BlockedError].
var ErrBlocked = errors.New("address is private or reserved")

// BlockedError is a refusal of an address by the policy. It matches [ErrBlocked].
type BlockedError struct {
	Addr netip.Addr
	// Denied: the operator has closed its range, see Policy.Deny.
	Denied bool
}

// Error names the address.
func (e *BlockedError) Error() string {
	if !e.Addr.IsValid() {
		return "unknown address is refused"
	}
	if e.Denied {
		return fmt.Sprintf("address %s is in a range that this server does not connect to", e.Addr)
	}
	return fmt.Sprintf("address %s is private or reserved", e.Addr)
}

// Is makes errors.Is(err, ErrBlocked) true.
func (e *BlockedError) Is(target error) bool { return target == ErrBlocked }

// Policy decides which addresses may be reached. The zero value allows the public internet only.
type Policy struct {
	// Allow opens ranges that would be denied, for development and for installations that deliver inside their own
	// network.
	Allow []netip.Prefix
	// Deny closes ranges whatever else holds: public ones of the operator's own, behind which is more than the world may
	// reach.
	Deny []netip.Prefix
}

// Check returns nil when the address may be reached, else a [*BlockedError].
func (p Policy) Check(addr netip.Addr) error {
	if !p.permits(addr) {
		return &BlockedError{Addr: addr, Denied: p.denies(addr)}
	}
	return nil
}

func (p Policy) denies(addr netip.Addr) bool {
	addr = addr.Unmap().WithZone("")
	return containedIn(p.Deny, addr) || addr.Is6() && (nat64.Contains(addr) || isISATAP(addr)) &&
		containedIn(p.Deny, embedded4(addr))
}

func (p Policy) permits(addr netip.Addr) bool {
	if !addr.IsValid() || addr.Zone() != "" {
		return false
	}
	addr = addr.Unmap()
	if p.denies(addr) {
		return false
	}
	if containedIn(p.Allow, addr) {
		return true
	}
	if addr.Is4() {
		return !containedIn(denied4, addr)
	}
	// DNS64 names are the only way to IPv4 hosts on an IPv6-only network, so NAT64 is judged by the address behind it.
	if nat64.Contains(addr) {
		return p.permits(embedded4(addr))
	}
	if !globalUnicast.Contains(addr) || containedIn(denied6, addr) {
		return false
	}
	if isISATAP(addr) {
		return p.permits(embedded4(addr))
	}
	return true
}

func containedIn(prefixes []netip.Prefix, addr netip.Addr) bool {
	for _, prefix := range prefixes {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

// embedded4 is the IPv4 address in the last 32 bits.
func embedded4(addr netip.Addr) netip.Addr {
	b := addr.As16()
	return netip.AddrFrom4([4]byte(b[12:]))
}

// isISATAP reports an interface identifier of 00-00-5E-FE or 02-00-5E-FE (RFC 5214, section 6.1), with either value of
// the universal and group bits.
func isISATAP(addr netip.Addr) bool {
	b := addr.As16()
	return b[8]&^0x03 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe
}

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
)

// denied4 follows the IANA IPv4 special-purpose registry, those entries included that the registry calls globally
// reachable but that lead to no ordinary host.
var denied4 = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"),        // this network
	netip.MustParsePrefix("10.0.0.0/8"),       // private use
	netip.MustParsePrefix("100.64.0.0/10"),    // shared address space
	netip.MustParsePrefix("127.0.0.0/8"),      // loopback
	netip.MustParsePrefix("169.254.0.0/16"),   // link local, cloud metadata
	netip.MustParsePrefix("172.16.0.0/12"),    // private use
	netip.MustParsePrefix("192.0.0.0/24"),     // IETF protocol assignments
	netip.MustParsePrefix("192.0.2.0/24"),     // documentation
	netip.MustParsePrefix("192.31.196.0/24"),  // AS112
	netip.MustParsePrefix("192.52.193.0/24"),  // AMT
	netip.MustParsePrefix("192.88.99.0/24"),   // 6to4 relay
	netip.MustParsePrefix("192.168.0.0/16"),   // private use
	netip.MustParsePrefix("192.175.48.0/24"),  // direct delegation AS112
	netip.MustParsePrefix("198.18.0.0/15"),    // benchmarking
	netip.MustParsePrefix("198.51.100.0/24"),  // documentation
	netip.MustParsePrefix("203.0.113.0/24"),   // documentation
	netip.MustParsePrefix("224.0.0.0/4"),      // multicast
	netip.MustParsePrefix("240.0.0.0/4"),      // reserved, broadcast
	netip.MustParsePrefix("168.63.129.16/32"), // Azure platform
}

// denied6 lists the ranges of 2000::/3 in the IANA IPv6 special-purpose registry.
var denied6 = []netip.Prefix{
	netip.MustParsePrefix("2001::/23"),         // IETF protocol assignments, Teredo
	netip.MustParsePrefix("2001:db8::/32"),     // documentation
	netip.MustParsePrefix("2002::/16"),         // 6to4
	netip.MustParsePrefix("2620:4f:8000::/48"), // direct delegation AS112
	netip.MustParsePrefix("3fff::/20"),         // documentation
}

// Classify returns the reason of an error that a transport of [NewTransport] returned, and "" for nil. Other errors are
// [delivery.FailureConnection]. A look-up that timed out is [delivery.FailureDNS], because that names the cause.
func Classify(err error) delivery.Failure {
	var dnsErr *net.DNSError
	var netErr net.Error
	switch {
	case err == nil:
		return ""
	case errors.Is(err, ErrBlocked):
		return delivery.FailureBlocked
	case errors.As(err, &dnsErr):
		return delivery.FailureDNS
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded),
		errors.As(err, &netErr) && netErr.Timeout():
		return delivery.FailureTimeout
	case isTLS(err):
		return delivery.FailureTLS
	}
	return delivery.FailureConnection
}

func isTLS(err error) bool {
	var (
		verification *tls.CertificateVerificationError
		record       tls.RecordHeaderError
		alert        tls.AlertError
		authority    x509.UnknownAuthorityError
		hostname     x509.HostnameError
		invalid      x509.CertificateInvalidError
		op           *net.OpError
	)
	switch {
	case errors.As(err, &verification), errors.As(err, &record), errors.As(err, &alert),
		errors.As(err, &authority), errors.As(err, &hostname), errors.As(err, &invalid),
		errors.Is(err, http.ErrSchemeMismatch):
		return true
	// An alert, ours or the peer's, is of an unexported type inside an OpError whose operation is not one of the
	// network's.
	case errors.As(err, &op) && (op.Op == "remote error" || op.Op == "local error"):
		return true
	}
	// The rest of crypto/tls has plain errors that begin with its name.
	for e := err; e != nil; e = errors.Unwrap(e) {
		if strings.HasPrefix(e.Error(), "tls: ") {
			return true
		}
	}
	return false
}
