package config

import (
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"carillon/command/egress"
)

const hidden = "[hidden]"

// Secret is a value that never shows: not in logs, not in formatted text, not in JSON. Reveal is the only way to it.
type Secret string

// Reveal is the value itself.
func (s Secret) Reveal() string { return string(s) }

// String hides the value.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// GoString hides the value from %#v.
func (s Secret) GoString() string { return s.String() }

// LogValue hides the value from slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText hides the value from encoders.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText takes any value.
func (s *Secret) UnmarshalText(text []byte) error {
	*s = Secret(strings.TrimSpace(string(text)))
	return nil
}

// Switch is on or off.
type Switch bool

// UnmarshalText takes the words for on and off that settings are usually given by.
func (s *Switch) UnmarshalText(text []byte) error {
	switch word := strings.ToLower(strings.TrimSpace(string(text))); word {
	case "on", "true", "yes", "1":
		*s = true
	case "off", "false", "no", "0":
		*s = false
	default:
		return fmt.Errorf("%q is neither on nor off", word)
	}
	return nil
}

// Address is a URL that may hold a secret, which never shows.
type Address string

// Reveal is the whole URL.
func (a Address) Reveal() string { return string(a) }

// storeSchemes are those of servers that have no secret in the path.
var storeSchemes = []string{
	"postgres", "postgresql", "esdb", "esdb+discover", "kurrentdb", "kurrentdb+discover",
}

// String is the URL of a store without password and parameters, and of anything else the origin.
func (a Address) String() string {
	if a == "" {
		return ""
	}
	scheme, rest, ok := strings.Cut(string(a), "://")
	if !ok {
		return hidden
	}
	if !a.isClear() {
		return scheme + "://" + hidden
	}
	if !slices.Contains(storeSchemes, strings.ToLower(scheme)) {
		return egress.ShownAddress(string(a))
	}
	rest, _, _ = strings.Cut(rest, "?")
	if i := strings.LastIndex(rest, "@"); i >= 0 {
		user, _, _ := strings.Cut(rest[:i], ":")
		if name, err := url.PathUnescape(user); err == nil {
			user = name
		}
		rest = user + ":" + hidden + rest[i:]
	}
	return scheme + "://" + rest
}

// GoString hides the password from %#v.
func (a Address) GoString() string { return a.String() }

// LogValue hides the password from slog.
func (a Address) LogValue() slog.Value { return slog.StringValue(a.String()) }

// MarshalText hides the password from encoders.
func (a Address) MarshalText() ([]byte, error) { return []byte(a.String()), nil }

// UnmarshalText takes any value; Config.Validate checks it without repeating it.
func (a *Address) UnmarshalText(text []byte) error {
	*a = Address(strings.TrimSpace(string(text)))
	return nil
}

// Prefixes are address ranges.
type Prefixes []netip.Prefix

// UnmarshalText reads a comma-separated list of ranges in CIDR notation; a single address is a range of one.
func (p *Prefixes) UnmarshalText(text []byte) error {
	*p = nil
	for entry := range strings.SplitSeq(string(text), ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		prefix, ok := parsePrefix(entry)
		if !ok {
			return fmt.Errorf("%q is not an address range: write it like 127.0.0.0/8 or fd00::/8", entry)
		}
		*p = append(*p, prefix)
	}
	return nil
}

// Origins are origins of web pages.
type Origins []string

// UnmarshalText reads a comma-separated list of origins. Only this machine's may be without TLS.
func (o *Origins) UnmarshalText(text []byte) error {
	*o = nil
	for entry := range strings.SplitSeq(string(text), ",") {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		at, err := url.Parse(entry)
		if err != nil || at.Scheme+"://"+at.Host != entry || strings.ContainsAny(at.Host, "*;' ") || at.Hostname() == "" ||
			at.Scheme != "https" && (at.Scheme != "http" || at.Hostname() != "localhost") {
			return fmt.Errorf("%q is not an origin: write it like https://portal.example.org", entry)
		}
		*o = append(*o, entry)
	}
	return nil
}

// String returns the list.
func (o Origins) String() string { return strings.Join(o, ",") }

// parsePrefix reads a range or an address. IPv4 addresses that are written as IPv6 (::ffff:10.0.0.0/104) become IPv4
// ranges, because the addresses that a range is compared with are IPv4 then, and nothing else would ever match.
func parsePrefix(entry string) (netip.Prefix, bool) {
	prefix, err := netip.ParsePrefix(entry)
	if err != nil {
		address, err := netip.ParseAddr(entry)
		if err != nil || address.Zone() != "" {
			return prefix, false
		}
		prefix = netip.PrefixFrom(address, address.BitLen())
	}
	const mapped = 96 // bits before the IPv4 address
	if prefix.Addr().Is4In6() {
		if prefix.Bits() < mapped {
			return prefix, false
		}
		prefix = netip.PrefixFrom(prefix.Addr().Unmap(), prefix.Bits()-mapped)
	}
	return prefix.Masked(), true
}

// String is the list as UnmarshalText reads it.
func (p Prefixes) String() string {
	entries := make([]string, len(p))
	for i, prefix := range p {
		entries[i] = prefix.String()
	}
	return strings.Join(entries, ",")
}

// Named is a setting to be looked at.
type Named struct {
	Variable string // CARILLON_HTTP_ADDR
	Value    string // hidden if it is a secret; "": not set
}

// Named lists all settings in the order of --help. Secrets and passwords are hidden by their types.
func (c *Config) Named() []Named { return named(reflect.ValueOf(c).Elem()) }

func named(settings reflect.Value) (list []Named) {
	for i := range settings.NumField() {
		field, value := settings.Type().Field(i), settings.Field(i)
		variable := field.Tag.Get("env")
		switch {
		case field.Anonymous && value.Kind() == reflect.Struct:
			list = append(list, named(value)...)
		case variable == "":
		case value.Kind() == reflect.Slice && value.Len() == 0:
			list = append(list, Named{Variable: variable})
		default:
			list = append(list, Named{Variable: variable, Value: fmt.Sprint(value.Interface())})
		}
	}
	return list
}
