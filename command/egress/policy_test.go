package egress

import (
	"errors"
	"net/netip"
	"testing"
)

func TestCheckBoundaries(t *testing.T) {
	t.Parallel()
	// For every denied range: its first and last address are refused; the neighbours outside are allowed unless another
	// range holds them.
	outside := map[bool]int{}
	for _, prefixes := range [][]netip.Prefix{denied4, denied6} {
		for _, prefix := range prefixes {
			first, last := prefix.Addr(), lastAddr(prefix)
			for _, addr := range []netip.Addr{first, last} {
				if err := (Policy{}).Check(addr); !errors.Is(err, ErrBlocked) {
					t.Errorf("%s of %s: %v", addr, prefix, err)
				}
			}
			for _, addr := range []netip.Addr{first.Prev(), last.Next()} {
				outside[Policy{}.Check(addr) == nil]++
			}
		}
	}
	if outside[true] < 30 {
		t.Errorf("only %d neighbours of denied ranges are allowed", outside[true])
	}
}

func lastAddr(prefix netip.Prefix) netip.Addr {
	bytes := prefix.Addr().AsSlice()
	for bit := prefix.Bits(); bit < len(bytes)*8; bit++ {
		bytes[bit/8] |= 0x80 >> (bit % 8)
	}
	addr, _ := netip.AddrFromSlice(bytes)
	return addr
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for _, allowed := range []string{
		"1.1.1.1", "8.8.8.8", "9.255.255.255", "11.0.0.0", "100.63.255.255", "100.128.0.0", "126.255.255.255", "128.0.0.0",
		"172.15.255.255", "172.32.0.0", "192.0.1.0", "198.17.255.255", "198.20.0.0", "223.255.255.255", "168.63.129.15",
		"::ffff:8.8.8.8", "2606:4700:4700::1111", "2a00:1450:4001::200e", "2001:200::1", "2400::1", "3ffe::1",
		"64:ff9b::808:808", "2606:4700::5efe:808:808",
	} {
		if err := (Policy{}).Check(netip.MustParseAddr(allowed)); err != nil {
			t.Errorf("%s: %v", allowed, err)
		}
	}
	if err := (Policy{}).Check(netip.Addr{}); !errors.Is(err, ErrBlocked) {
		t.Errorf("zero address: %v", err)
	}
	everything := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("::/0"), netip.MustParsePrefix("0.0.0.0/0")}}
	if err := everything.Check(netip.MustParseAddr("fe80::1%eth0")); !errors.Is(err, ErrBlocked) {
		t.Errorf("a zone is refused whatever is allowed: %v", err)
	}
	for _, opened := range []string{"10.0.0.1", "::1", "::ffff:127.0.0.1", "fd00::1"} {
		if err := everything.Check(netip.MustParseAddr(opened)); err != nil {
			t.Errorf("%s: %v", opened, err)
		}
	}
}
