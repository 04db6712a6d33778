package egress

import (
	"errors"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckBoundaries(t *testing.T) {
	t.Parallel()
	// For every denied range: its first and last address are refused; the
	// neighbours outside are allowed unless another range holds them.
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

func TestParsePolicy(t *testing.T) {
	t.Parallel()
	got, err := ParsePolicy(" 127.0.0.0/8, 10.1.2.3/8\n::1 ,192.168.1.7,::ffff:172.16.0.0/108,fd00::/8,")
	if err != nil {
		t.Fatal(err)
	}
	spelled := make([]string, 0, len(got.Allow))
	for _, prefix := range got.Allow {
		spelled = append(spelled, prefix.String())
	}
	want := []string{"127.0.0.0/8", "10.0.0.0/8", "::1/128", "192.168.1.7/32", "172.16.0.0/12", "fd00::/8"}
	if diff := cmp.Diff(want, spelled); diff != "" {
		t.Error(diff)
	}
	if empty, err := ParsePolicy(" "); err != nil || len(empty.Allow) != 0 {
		t.Errorf("empty list: %v, %v", empty, err)
	}
	for _, bad := range []string{"10.0.0.0/33", "ten", "fe80::1%eth0", "fe80::%eth0/10", "10.0.0/8", "::ffff:0:0/90"} {
		if _, err := ParsePolicy("127.0.0.0/8," + bad); err == nil || !strings.Contains(err.Error(), `"`+bad+`"`) {
			t.Errorf("%s: error does not name the entry: %v", bad, err)
		}
	}
}
