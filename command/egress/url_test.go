package egress

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

type hostileURL struct{ url, want string }

func hostileURLs(tb testing.TB) []hostileURL {
	tb.Helper()
	file, err := os.Open("testdata/hostile.txt")
	must.OK(tb, err)
	defer func() { _ = file.Close() }()
	var all []hostileURL
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		raw, want, ok := strings.Cut(lines.Text(), "\t")
		if !ok {
			tb.Fatalf("line without tab: %q", lines.Text())
		}
		if strings.HasPrefix(raw, `"`) {
			if raw, err = strconv.Unquote(raw); err != nil {
				tb.Fatalf("%s: %v", lines.Text(), err)
			}
		}
		all = append(all, hostileURL{raw, want})
	}
	must.OK(tb, lines.Err())
	return all
}

func TestCheckURLRefusesHostile(t *testing.T) {
	t.Parallel()
	all := hostileURLs(t)
	must.True(t, len(all) >= 120, "corpus has shrunk to %d URLs", len(all))
	for _, test := range all {
		u, err := Policy{}.CheckURL("config.url", test.url)
		if err == nil {
			t.Errorf("%q was accepted as host %q", test.url, u.Host)
			continue
		}
		assert.Is(t, err, ErrURL, "%q … does not match ErrURL", test.url)
		want := "config.url " + test.want
		if _, addrErr := netip.ParseAddr(test.want); addrErr == nil {
			want = "config.url points to a private or reserved address (" + test.want + ")"
			var blocked *BlockedError
			assert.True(t, errors.Is(err, ErrBlocked) && errors.As(err, &blocked) && blocked.Addr.String() == test.want,
				"%q: no BlockedError of %s: %v", test.url, test.want, err)
		}
		assert.True(t, err.Error() == want, "%q:\n got %s\nwant %s", test.url, err, want)
	}
}

func TestCheckURLAccepts(t *testing.T) {
	t.Parallel()
	long := "https://example.com/" + strings.Repeat("ü", MaxURLLength-len("https://example.com/"))
	for _, raw := range []string{
		"https://example.com", "https://example.com/", "HTTPS://EXAMPLE.COM/Hook", "https://example.com.:8443/a?b=c",
		"https://8.8.8.8/", "https://134744072/", "https://0x08080808/", "https://[2606:4700:4700::1111]/",
		"https://[64:ff9b::8.8.8.8]/", "https://[::ffff:8.8.8.8]/", "https://[2606:4700::5efe:8.8.8.8]/",
		"https://bücher.example/", "https://xn--bcher-kva.example/", "https://hooks_internal.example.com/",
		"https://localhost.example.com/", "https://notlocalhost/", "https://127.0.0.1.nip.example/", "https://1e100.example/",
		"https://deadbeef/", "https://0xample.example/", "https://example.com/%2e%2e/a%20b",
		"https://a.b.c.d.e.f.example:1/", long,
	} {
		u, err := Policy{}.CheckURL("config.url", raw)
		if err != nil {
			t.Errorf("%.60q: %v", raw, err)
		} else if u.Scheme != "https" || u.Host == "" {
			t.Errorf("%.60q: parsed as %+v", raw, u)
		}
	}
	_, err := Policy{}.CheckURL("config.url", long+"x")
	assert.True(t, err != nil && err.Error() == "config.url must have at most 2048 characters", "2049 characters: %v", err)
}

func TestCheckURLRefusesUnsendable(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://example.com/a#b": "config.url must not have a fragment: what follows a # is never sent",
		"https://example.com/?q=100%": "config.url must not contain a % in its query that is not followed by two " +
			"hexadecimal digits: write %25",
		"https://example.com/?q=%4x": "config.url must not contain a % in its query that is not followed by two " +
			"hexadecimal digits: write %25",
		"https://example.com/100%": "config.url must be a valid URL",
	} {
		_, err := (Policy{}).CheckURL("config.url", raw)
		assert.True(t, err != nil && err.Error() == want, "%s: %v", raw, err)
	}
}

func TestWireURL(t *testing.T) {
	t.Parallel()
	for raw, want := range map[string]string{
		"https://LOCALHOST:8443/Hook?Q=A":          "https://localhost:8443/Hook?Q=A",
		"https://example.com/é/a%2Fb%c3?q=é&a[]=1": "https://example.com/%C3%A9/a%2Fb%c3?q=%C3%A9&a%5B%5D=1",
		"https://example.com?q=\"{|}^`<>":          "https://example.com?q=%22%7B%7C%7D%5E%60%3C%3E",
		"https://Bücher.example/#f":                "https://bücher.example/",
		"https://[2606:4700::ABCD]/":               "https://[2606:4700::abcd]/",
		"https://example.com/?":                    "https://example.com/?",
		"://":                                      "://",
		"no URL":                                   "no URL",
	} {
		assert.Equal(t, WireURL(raw), want, "%s", raw)
	}
}

func TestCheckURLNamesTheField(t *testing.T) {
	t.Parallel()
	_, err := Policy{}.CheckURL("url", "ftp://example.com/")
	assert.True(t, err != nil && err.Error() == "url must use https", "got %v", err)
	development := Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	for _, raw := range []string{"https://localhost:8443/", "https://127.1/", "https://[::ffff:127.0.0.1]/"} {
		_, err := development.CheckURL("config.url", raw)
		assert.True(t, err == nil, "%s with loopback allowed: %v", raw, err)
	}
	assert.Is(t, assert.Err(development.CheckURL("config.url", "https://10.0.0.1/")), ErrBlocked,
		"a range that was not opened")
}

func TestURLErrorsKeepThePassword(t *testing.T) {
	t.Parallel()
	for _, raw := range []string{
		"https://user:hunter2@example.com/", "https://user:hunter2@[::1/", "https://u:hunter2@exa%mple/",
		"http://user:hunter2@example.com/?token=hunter2", "https://user:hunter2 @example.com:x/",
	} {
		_, err := (Policy{}).CheckURL("config.url", raw)
		assert.True(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "%q: %v", raw, err)
	}
}

func TestHideAddresses(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`Post "https://hooks.example.org/T0/s3cret?k=v": EOF`:           `Post "https://hooks.example.org/…": EOF`,
		`failed to send to https://u:s3cret@o.example:4318/v1: 500 (x)`: `failed to send to https://o.example:4318/… 500 (x)`,
		`https://example.org/`:                  `https://example.org`,
		`parse "https://u:s3/c@host/x": failed`: `parse "https://…": failed`,
		`ftp://host?s3cret, no address`:         `ftp://host/… no address`,
		`dial tcp 192.0.2.1:443: timeout`:       `dial tcp 192.0.2.1:443: timeout`,
	} {
		assert.Equal(t, HideAddresses(errors.New(text)).Error(), want, "%s is shown as", text)
	}
	assert.True(t, HideAddresses(nil) == nil, "nil became an error")
}

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
			assert.True(t, slices.ContainsFunc(h.addrs, func(a netip.Addr) bool { return a.Unmap() == want }),
				"%s as %s: read as %v", want, spelling, h.addrs)
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
		must.True(t, h.name != "", "%q: empty name", free)
		if parsed, err := netip.ParseAddr(free); err == nil && !slices.Contains(h.addrs, parsed) {
			t.Fatalf("%q is %s, read as %v", free, parsed, h.addrs)
		}
		again, err := parseHost(h.name)
		must.True(t, err == nil && slices.Equal(again.addrs, h.addrs),
			"%q: canonical form %q reads differently: %v, %v", free, h.name, again, err)
		if u, err := url.Parse("https://" + h.name + "/"); !strings.Contains(h.name, ":") &&
			(err != nil || u.Hostname() != h.name) {
			t.Fatalf("%q: canonical form %q is no URL host: %v", free, h.name, err)
		}
	})
}
