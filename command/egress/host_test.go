package egress

import (
	"encoding/binary"
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"testing"
)

// spellings writes one address in the notations that resolvers accept.
func spellings(addr [4]byte) []string {
	n := binary.BigEndian.Uint32(addr[:])
	a, b, c, d := addr[0], addr[1], addr[2], addr[3]
	all := make([]string, 0, 25)
	all = append(all,
		fmt.Sprintf("%d.%d.%d.%d", a, b, c, d),
		fmt.Sprintf("%d.%d.%d.%d.", a, b, c, d),
		fmt.Sprintf("%d", n),
		fmt.Sprintf("0%o", n),
		fmt.Sprintf("%#x", n),
		fmt.Sprintf("0X%X", n),
		fmt.Sprintf("%d.%d", a, n&0xffffff),
		fmt.Sprintf("%#x.%d.0%o", a, b, n&0xffff),
		fmt.Sprintf("0%o.0%o.0%o.0%o", a, b, c, d),
		fmt.Sprintf("%#x.%#x.%#x.%#x", a, b, c, d),
		fmt.Sprintf("%03d.%03d.%03d.%03d", a, b, c, d),
		fmt.Sprintf("[::ffff:%d.%d.%d.%d]", a, b, c, d),
		fmt.Sprintf("[::ffff:%x:%x]", n>>16, n&0xffff),
	)
	for _, plain := range all[:3] {
		all = append(all,
			strings.Map(func(r rune) rune { return shift(r, 0xff10) }, plain),  // full-width
			strings.Map(func(r rune) rune { return shift(r, 0x1d7ce) }, plain), // mathematical bold
			strings.ReplaceAll(plain, ".", "\u3002"), strings.ReplaceAll(plain, ".", "\uff61"),
		)
	}
	return all
}

func shift(r, zero rune) rune {
	if r >= '0' && r <= '9' {
		return zero + r - '0'
	}
	return r
}

func TestSpellingsOfOneAddress(t *testing.T) {
	t.Parallel()
	for _, addr := range [][4]byte{
		{127, 0, 0, 1},
		{10, 1, 2, 3},
		{169, 254, 169, 254},
		{8, 8, 8, 8},
		{0, 0, 0, 0},
		{255, 255, 255, 255},
		{192, 168, 0, 77},
	} {
		want := netip.AddrFrom4(addr)
		for _, spelling := range spellings(addr) {
			h, err := parseHost(strings.Trim(spelling, "[]"))
			if err != nil {
				t.Errorf("%s as %s: %v", want, spelling, err)
				continue
			}
			if !slices.ContainsFunc(h.addrs, func(a netip.Addr) bool { return a.Unmap() == want }) {
				t.Errorf("%s as %s: read as %v", want, spelling, h.addrs)
			}
		}
	}
}

// FuzzHostSpelling: whatever the notation, an address is seen through; and no input passes that an IP parser would take
// for a forbidden address.
func FuzzHostSpelling(f *testing.F) {
	f.Add(uint32(0x7f000001), uint8(0), "example.com")
	f.Add(uint32(0xa9fea9fe), uint8(7), "0x7f.1")
	f.Add(uint32(0x08080808), uint8(15), "①②⑦.⓪.⓪.①")
	f.Add(uint32(0), uint8(3), "127。0。0。1")
	f.Add(uint32(1), uint8(9), "[::ffff:7f00:1]")
	f.Add(uint32(1), uint8(9), "foo.localhost.")
	f.Fuzz(func(t *testing.T, n uint32, style uint8, free string) {
		var addr [4]byte
		binary.BigEndian.PutUint32(addr[:], n)
		all := spellings(addr)
		spelling := all[int(style)%len(all)]
		_, err := Policy{}.CheckURL("config.url", "https://"+spelling+"/")
		if blocked := (Policy{}).Check(netip.AddrFrom4(addr)) != nil; blocked && err == nil {
			t.Fatalf("%v passed as %q", addr, spelling)
		}

		h, err := parseHost(free)
		if err != nil {
			return
		}
		if h.name == "" {
			t.Fatalf("%q: empty name", free)
		}
		if parsed, err := netip.ParseAddr(free); err == nil && !slices.Contains(h.addrs, parsed) {
			t.Fatalf("%q is %s, read as %v", free, parsed, h.addrs)
		}
		again, err := parseHost(h.name)
		if err != nil || !slices.Equal(again.addrs, h.addrs) {
			t.Fatalf("%q: canonical form %q reads differently: %v, %v", free, h.name, again, err)
		}
		if u, err := url.Parse("https://" + h.name + "/"); !strings.Contains(h.name, ":") &&
			(err != nil || u.Hostname() != h.name) {
			t.Fatalf("%q: canonical form %q is no URL host: %v", free, h.name, err)
		}
	})
}
