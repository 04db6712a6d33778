// Package identity makes the keys from which happening ids are derived. Observations with equal keys are of the same
// happening.
//
// A strong key identifies one happening at any source: the canonical form of its own URL, or an identifier of its
// publisher. Without one, the key consists of page, title and venue. No key has a date, because dates change.
package identity

import (
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"golang.org/x/net/idna"
	"golang.org/x/text/unicode/norm"
)

// URLKey returns the strong key of a happening's own URL.
func URLKey(u *url.URL) string { return urlPrefix + Canonical(u) }

const urlPrefix = "url:"

// IsURL reports whether a key is one of a URL.
func IsURL(key string) bool { return strings.HasPrefix(key, urlPrefix) }

// Successor returns the key of the n-th happening that has the URL of a key. The first one has the key itself.
func Successor(key string, n int) string {
	if n < 2 {
		return key
	}
	return key + " (" + strconv.Itoa(n) + ")"
}

// IDKey returns the strong key of an absolute @id, which is a URL or a URN.
func IDKey(id string) string {
	if u, err := url.Parse(id); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return "id:" + Canonical(u)
	}
	return "id:" + strings.TrimSpace(id)
}

// PageKey returns the weak key of a happening without a strong one: title and venue distinguish it on its page.
func PageKey(page *url.URL, title, venue string) string {
	return strings.Join([]string{"page:" + Canonical(page), Title(title), Words(venue)}, "|")
}

// visitorSession matches the unambiguous names of session parameters.
var visitorSession = regexp.MustCompile(`(?i)^(?:phpsessid|jsessionid|aspsessionid.*)$`)

var (
	// sessionName and sessionValue match sessions of visitors in queries. The names have other meanings too.
	sessionName  = regexp.MustCompile(`(?i)^(?:.*sess(?:ion)?_?id|.*session|sess|sid|s|cfid|cftoken|osCsid|zenid|xtcsid)$`)
	sessionValue = regexp.MustCompile(`^[A-Za-z0-9_,-]{16,}$`)
	// busterName matches parameters that make each address unique, to avoid caches. The value of an ambiguous name,
	// clockName, has to be a time.
	busterName = regexp.MustCompile(`(?i)^(?:_|_dc|_ts?|_?no[_-]?cache|_?cache[_-]?bust(?:er|ing)?|cb|_?rnd` +
		`|_?rand(?:om)?)$`)
	busterValue = regexp.MustCompile(`^(?:0?\.)?\d{5,}$`)
	clockName   = regexp.MustCompile(`(?i)^(?:ts?|timestamp)$`)
	clockValue  = regexp.MustCompile(`^1\d{9}(?:\d{3})?(?:\.\d+)?$`)
)

// isPassing reports whether a parameter changes with each visit: a session of a visitor, by its name and a long value
// with digits, or a parameter against caches.
func isPassing(name, value string) bool {
	switch {
	case sessionName.MatchString(name):
		return sessionValue.MatchString(value) && strings.ContainsAny(value, "0123456789")
	case busterName.MatchString(name):
		return busterValue.MatchString(value)
	default:
		return clockName.MatchString(name) && clockValue.MatchString(value)
	}
}

// Clean returns the displayable URL: without user names, tracking and parameters of single visits.
func Clean(u *url.URL) string {
	c := *u
	c.User = nil
	if c.RawQuery != "" {
		c.RawQuery = strings.Join(meaningful(u), "&")
	}
	c.ForceQuery = false
	return c.String()
}

// Public returns the displayable URL of a source: without user names and its query, which may have a token.
func Public(u *url.URL) string {
	c := *u
	c.User, c.RawQuery, c.ForceQuery = nil, "", false
	return c.String()
}

// SamePage reports whether two URLs differ by their queries and fragments alone.
func SamePage(a, b *url.URL) bool {
	return a.Path == b.Path && strings.EqualFold(a.Hostname(), b.Hostname())
}

var (
	sessionPath = regexp.MustCompile(`(?i);jsessionid=[^/?#]*`)
	indexFile   = regexp.MustCompile(`(?i)/(?:index|default)\.(?:html?|php|aspx?)$`)
)

// Canonical returns the same text for all spellings of a URL: without scheme, "www.", default port, tracking
// parameters, sessions, index file or slash at the end; the query is in order. The fragment stays, because it may
// distinguish events of one page.
func Canonical(u *url.URL) string {
	// Cleaning removes dots and double slashes; the decoded path is equal for all its escapings.
	p := u.Path
	if strings.Contains(p, ";") {
		p = sessionPath.ReplaceAllString(p, "")
	}
	if strings.Contains(p, ".") {
		p = indexFile.ReplaceAllString(p, "/")
	}
	p = path.Clean("/" + p)
	key := site(u.Hostname(), u.Port()) + strings.TrimSuffix((&url.URL{Path: p}).EscapedPath(), "/")
	pairs := meaningful(u)
	slices.Sort(pairs)
	if len(pairs) > 0 {
		key += "?" + strings.Join(pairs, "&")
	}
	if u.Fragment != "" {
		key += "#" + u.Fragment
	}
	return key
}

// genericFragments match names of kinds of nodes, which are equal on all pages: "#event".
var genericFragments = regexp.MustCompile(`(?i)^[/!]*(event|events|this|main|content|schema|top|details?|info` +
	`|primary|person|organization|webpage|place|location|\d)?$`)

// IsGeneric reports whether the fragment of a URL distinguishes nothing.
func IsGeneric(fragment string) bool { return genericFragments.MatchString(fragment) }

// Words returns a name for comparisons: NFKC, lower case, letters and digits only, single spaces.
func Words(name string) string {
	name = strings.ToLower(norm.NFKC.String(name))
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), " ")
}

// SameSite reports whether two URLs have the same host and port, without regard to "www.", http and https.
func SameSite(a, b *url.URL) bool { return asciiSite(a) == asciiSite(b) }

func asciiSite(u *url.URL) string {
	host := strings.ToLower(u.Hostname())
	if ascii, err := idna.ToASCII(host); err == nil {
		host = ascii
	}
	return site(host, u.Port())
}

func site(host, port string) string {
	host = strings.TrimPrefix(strings.TrimSuffix(strings.ToLower(host), "."), "www.")
	if port != "" && port != "80" && port != "443" {
		host += ":" + port
	}
	return host
}
