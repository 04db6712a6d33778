package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// MaxURLLength is the longest URL, in characters.
const MaxURLLength = 2048

// ErrURL matches every refusal of a URL, see [URLError].
var ErrURL = errors.New("unacceptable URL")

// URLError refuses a URL. Its text is fit for an API client: it names the field and the fault, and never repeats the
// URL.
type URLError struct {
	Field   string // the request field, such as "config.url"
	Problem string // continues the field: "must use https"
	cause   error
}

// Error joins the field and the problem.
func (e *URLError) Error() string { return e.Field + " " + e.Problem }

// Is makes errors.Is(err, ErrURL) true.
func (e *URLError) Is(target error) bool { return target == ErrURL }

// Unwrap returns the [*BlockedError] if the address is the reason.
func (e *URLError) Unwrap() error { return e.cause }

// urlField is the request field that a URL was sent in; its methods make errors that name it.
type urlField string

func (f urlField) refuse(problem string) error { return &URLError{Field: string(f), Problem: problem} }

func (f urlField) blocked(err error) error {
	problem := "points to a private or reserved address"
	var blocked *BlockedError
	if errors.As(err, &blocked) && blocked.Addr.IsValid() {
		problem = fmt.Sprintf("%s (%s)", problem, blocked.Addr)
	}
	return &URLError{Field: string(f), Problem: problem, cause: err}
}

// CheckURL judges the URL that a request has in a field, without asking DNS: https, at most [MaxURLLength] characters,
// a host, a possible port, no user information, an address that the policy permits if the host spells one in any
// notation, and nothing that can't be sent. The error is a [*URLError].
func (p Policy) CheckURL(field, raw string) (*url.URL, error) {
	f := urlField(field)
	if err := f.checkText(raw); err != nil {
		return nil, err
	}
	u, err := url.Parse(raw)
	if err != nil {
		// The parser's error repeats the URL, which may hold a password.
		return nil, f.refuse("must be a valid URL")
	}
	if err := f.checkParts(u); err != nil {
		return nil, err
	}
	h, err := parseHost(u.Hostname())
	if err != nil {
		return nil, f.refuse("must name a valid host")
	}
	if err := p.checkAll(h.addrs); err != nil {
		return nil, f.blocked(err)
	}
	return u, f.checkSent(raw, u)
}

// checkSent refuses parts that no request can have.
func (f urlField) checkSent(raw string, u *url.URL) error {
	switch {
	case strings.Contains(raw, "#"):
		return f.refuse("must not have a fragment: what follows a # is never sent")
	case !validEscapes(u.RawQuery):
		return f.refuse("must not contain a % in its query that is not followed by two hexadecimal digits: write %25")
	}
	return nil
}

func validEscapes(s string) bool {
	for {
		_, after, found := strings.Cut(s, "%")
		if !found {
			return true
		}
		if len(after) < 2 || !isHex(after[0]) || !isHex(after[1]) {
			return false
		}
		s = after[2:]
	}
}

func isHex(c byte) bool { return strings.IndexByte("0123456789abcdefABCDEF", c) >= 0 }

// WireURL returns a URL as a request has it: the host in lower case, as SNI and Host are compared by some receivers
// byte by byte; without a fragment; and each byte percent-encoded that RFC 3986 does not allow in a path or a query.
// The rest stays as it was typed.
func WireURL(raw string) string {
	raw, _, _ = strings.Cut(raw, "#")
	scheme, rest, found := strings.Cut(raw, "://")
	if !found {
		return raw
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	wire := make([]byte, 0, len(raw))
	wire = append(append(wire, scheme...), "://"...)
	wire = append(wire, strings.ToLower(rest[:end])...)
	for _, c := range []byte(rest[end:]) {
		if isTarget(c) {
			wire = append(wire, c)
			continue
		}
		wire = append(wire, '%', "0123456789ABCDEF"[c>>4], "0123456789ABCDEF"[c&15])
	}
	return string(wire)
}

// isTarget reports whether RFC 3986 allows a byte in a path or a query; a % begins an encoded byte.
func isTarget(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' ||
		strings.IndexByte("-._~!$&'()*+,;=:@/?%", c) >= 0
}

// checkText refuses characters on which URL parsers disagree.
func (f urlField) checkText(raw string) error {
	switch {
	case raw == "":
		return f.refuse("must not be empty")
	case !utf8.ValidString(raw):
		return f.refuse("must be valid UTF-8")
	case utf8.RuneCountInString(raw) > MaxURLLength:
		return f.refuse("must have at most " + strconv.Itoa(MaxURLLength) + " characters")
	case strings.IndexFunc(raw, func(c rune) bool { return unicode.IsSpace(c) || unicode.IsControl(c) }) >= 0:
		return f.refuse("must not contain white space or control characters")
	case strings.Contains(raw, `\`):
		return f.refuse("must not contain a backslash")
	}
	return nil
}

func (f urlField) checkParts(u *url.URL) error {
	switch {
	case u.Scheme != "https":
		return f.refuse("must use https")
	case u.User != nil:
		return f.refuse("must not contain a user name or password")
	case u.Hostname() == "":
		return f.refuse("must name a host")
	}
	if strings.HasPrefix(u.Host, "[") && !strings.Contains(u.Hostname(), ":") {
		return f.refuse("must name a valid host")
	}
	if port := u.Port(); port != "" {
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return f.refuse("must use a port from 1 to 65535")
		}
	}
	return nil
}

// checkAll asks that every address be permitted.
func (p Policy) checkAll(addrs []netip.Addr) error {
	for _, addr := range addrs {
		if err := p.Check(addr); err != nil {
			return err
		}
	}
	return nil
}
