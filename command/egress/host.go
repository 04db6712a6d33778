package egress

import (
	"errors"
	"net/netip"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
)

// errHost refuses a host that is neither an address nor a possible DNS name.
var errHost = errors.New("host is neither an address nor a valid name")

// host is the host of a URL as a resolver would understand it.
type host struct {
	// name is the lower-case ASCII form, without a trailing dot.
	name string
	// addrs are the addresses that the host spells without asking DNS. More than one if resolvers disagree:
	// 010.8.8.8 is 8.8.8.8 to those that read octal and 10.8.8.8 to the others. Empty for an ordinary name.
	addrs []netip.Addr
}

// parseHost reads a host without brackets and port, as [url.URL.Hostname] returns it. It knows the spellings that
// inet_aton, browsers and IDNA accept. A host whose last label is a number must be an address, as in the WHATWG URL
// standard, so that no exotic reading is left to chance.
func parseHost(raw string) (host, error) {
	if strings.Contains(raw, ":") {
		addr, err := netip.ParseAddr(raw)
		if err != nil {
			return host{}, errHost
		}
		return host{name: addr.String(), addrs: []netip.Addr{addr}}, nil
	}
	name, err := asciiHost(raw)
	if err != nil {
		return host{}, err
	}
	name = strings.TrimSuffix(name, ".")
	if isNumber(name[strings.LastIndexByte(name, '.')+1:]) {
		addrs := spelled4(name)
		if len(addrs) == 0 {
			return host{}, errHost
		}
		return host{name: name, addrs: addrs}, nil
	}
	if !isDNSName(name) {
		return host{}, errHost
	}
	return host{name: name, addrs: localNames(name)}, nil
}

// asciiHost maps a host the way net/http does before it dials.
func asciiHost(raw string) (string, error) {
	ascii := true
	for i := range len(raw) {
		if raw[i] >= 0x80 {
			ascii = false
			break
		}
	}
	if ascii {
		return strings.ToLower(raw), nil
	}
	name, err := idna.Lookup.ToASCII(strings.ToLower(raw)) // as WireURL does: it maps no case
	if err != nil {
		return "", errHost
	}
	if isForeignNumber(raw, name) {
		return "", errHost
	}
	return name, nil
}

// isForeignNumber reports a last label of digits that IDNA did not turn into ASCII. Some software reads digits of any
// script as numbers, and no top-level domain consists of them.
func isForeignNumber(raw, ascii string) bool {
	labels := strings.FieldsFunc(raw, func(r rune) bool { return strings.ContainsRune(".\u3002\uff0e\uff61", r) })
	if len(labels) == 0 {
		return false
	}
	last := labels[len(labels)-1]
	if strings.IndexFunc(last, func(r rune) bool { return !unicode.IsNumber(r) }) >= 0 {
		return false
	}
	ascii = strings.TrimSuffix(ascii, ".")
	return !isNumber(ascii[strings.LastIndexByte(ascii, '.')+1:])
}

// isNumber reports a label that inet_aton may take for a number: decimal or octal digits, or 0x and any hexadecimal
// digits, none included.
func isNumber(label string) bool {
	if hex, ok := strings.CutPrefix(label, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return label != "" && strings.Trim(label, "0123456789") == ""
}

// spelled4 returns every IPv4 address that the number notation can mean, at most one each for the octal and the decimal
// reading of leading zeros.
func spelled4(name string) []netip.Addr {
	parts := strings.Split(name, ".")
	var addrs []netip.Addr
	for _, octal := range []bool{true, false} {
		addr, ok := combine4(parts, octal)
		if ok && (len(addrs) == 0 || addrs[0] != addr) {
			addrs = append(addrs, addr)
		}
	}
	return addrs
}

// combine4 is inet_aton: one to four parts, the last fills what is left.
func combine4(parts []string, octal bool) (netip.Addr, bool) {
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		n, ok := parsePart(part, octal)
		if !ok {
			return netip.Addr{}, false
		}
		if i < len(parts)-1 {
			if n > 0xff {
				return netip.Addr{}, false
			}
			value |= n << (24 - 8*i)
			continue
		}
		if n >= 1<<(32-8*i) {
			return netip.Addr{}, false
		}
		value |= n
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func parsePart(part string, octal bool) (uint64, bool) {
	base := 10
	switch {
	case !isNumber(part):
		return 0, false
	case strings.HasPrefix(part, "0x"):
		if part = part[2:]; part == "" {
			return 0, true
		}
		base = 16
	case octal && len(part) > 1 && part[0] == '0':
		base = 8
	}
	n, err := strconv.ParseUint(part, base, 64)
	return n, err == nil
}

// localNames returns the loopback address for the names that resolvers or hosts files reserve for it (RFC 6761, section
// 6.3).
func localNames(name string) []netip.Addr {
	switch {
	case name == "localhost", strings.HasSuffix(name, ".localhost"), name == "localhost.localdomain":
		return []netip.Addr{netip.AddrFrom4([4]byte{127, 0, 0, 1})}
	case name == "localhost6", name == "localhost6.localdomain6", name == "ip6-localhost", name == "ip6-loopback":
		return []netip.Addr{netip.IPv6Loopback()}
	}
	return nil
}

// isDNSName allows letters, digits, hyphen and underscore; names with an underscore exist in practice and resolve.
func isDNSName(name string) bool {
	if name == "" || len(name) > 253 {
		return false
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || label[len(label)-1] == '-' {
			return false
		}
		for i := range len(label) {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return false
			}
		}
	}
	return true
}
