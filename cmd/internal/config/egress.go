package config

import (
	"crypto/x509"
	"fmt"
	"net"
	"net/netip"
	"strings"

	"carillon/command/mtls"
)

// Addresses are single addresses.
type Addresses []netip.Addr

// UnmarshalText reads a comma-separated list.
func (a *Addresses) UnmarshalText(text []byte) error {
	*a = nil
	for entry := range strings.SplitSeq(string(text), ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		address, err := netip.ParseAddr(strings.Trim(entry, "[]"))
		if err != nil || address.Zone() != "" {
			return fmt.Errorf("%q is not an address: write it like 192.0.2.1 or 2001:db8::1", entry)
		}
		*a = append(*a, address.Unmap())
	}
	return nil
}

// EgressRoots returns the authorities that outgoing connections trust: those given, or the system's if that is nil, and
// those of CARILLON_EGRESS_CA. nil means the system's.
func (c *Config) EgressRoots(roots *x509.CertPool) (*x509.CertPool, error) {
	const variable = "CARILLON_EGRESS_CA"
	if c.EgressCA == "" {
		return roots, nil
	}
	text, err := mtls.ReadPEM(c.EgressCA)
	if err != nil {
		return nil, wrong(variable, "%v", err)
	}
	if roots == nil {
		if roots, err = x509.SystemCertPool(); err != nil {
			roots = x509.NewCertPool()
		}
	}
	if !roots.AppendCertsFromPEM(text) {
		return nil, wrong(variable, "must name a file with certificates in PEM; %s has none", c.EgressCA)
	}
	return roots, nil
}

// checkEgress refuses outgoing addresses that this machine can't send from, and authorities that can't be read.
func (c *Config) checkEgress() error {
	if _, err := c.EgressRoots(nil); err != nil {
		return err
	}
	const variable = "CARILLON_EGRESS_ADDR"
	families := map[bool]netip.Addr{}
	for _, address := range c.EgressAddr {
		if other, twice := families[address.Is4()]; twice {
			return wrong(variable, "may name one address of IPv4 and one of IPv6; %s and %s are of the same family",
				other, address)
		}
		families[address.Is4()] = address
		if address.IsUnspecified() || address.IsMulticast() || address == netip.AddrFrom4([4]byte{255, 255, 255, 255}) {
			return wrong(variable, "must name an address of this machine; %s is that of none", address)
		}
		listener, err := net.ListenTCP("tcp", net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 0)))
		if err != nil {
			return wrong(variable, "must name an address of this machine; it can't send from %s: %v", address, err)
		}
		_ = listener.Close()
	}
	return nil
}
