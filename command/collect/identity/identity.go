// Package identity says when two observations are of the same happening: it makes the keys that happening ids are
// derived from.
//
// A strong key names one happening wherever it is seen: the canonical form of its own URL, or an identifier that its
// publisher made. Where there is none, the page, the title and the venue together have to do. No key holds a date,
// since dates change.
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

// URLKey is the strong key of a happening's own URL.
func URLKey(u *url.URL) string { return urlPrefix + Canonical(u) }

const urlPrefix = "url:"

// IsURL says that a key is one of a URL.
func IsURL(key string) bool { return strings.HasPrefix(key, urlPrefix) }

// Successor is the key of the n-th happening that has the URL of a key, where others had it before. The first has the
// key itself.
func Successor(key string, n int) string {
	if n < 2 {
		return key
	}
	return key + " (" + strconv.Itoa(n) + ")"
}

// IDKey is the strong key of an absolute @id, which is a URL or a URN.
func IDKey(id string) string {
	if u, err := url.Parse(id); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
		return "id:" + Canonical(u)
	}
	return "id:" + strings.TrimSpace(id)
}

// PageKey is the weak key of a happening that has nothing of its own: it is told from others by title and venue on the
// page that shows it.
func PageKey(page *url.URL, title, venue string) string {
	return strings.Join([]string{"page:" + Canonical(page), Title(title), Words(venue)}, "|")
}

// visitorSession are parameters that hold the session of a visitor, by names that mean nothing else.
var visitorSession = regexp.MustCompile(`(?i)^(?:phpsessid|jsessionid|aspsessionid.*)$`)

var (
	// sessionName and sessionValue are how servers write the session of a visitor into a query. The names mean other
	// things too.
	sessionName  = regexp.MustCompile(`(?i)^(?:.*sess(?:ion)?_?id|.*session|sess|sid|s|cfid|cftoken|osCsid|zenid|xtcsid)$`)
	sessionValue = regexp.MustCompile(`^[A-Za-z0-9_,-]{16,}$`)
	// busterName is of what makes each address a new one, so that no cache answers. Where the name means other things
	// too, clockName, its value has to be the clock.
	busterName = regexp.MustCompile(`(?i)^(?:_|_dc|_ts?|_?no[_-]?cache|_?cache[_-]?bust(?:er|ing)?|cb|_?rnd` +
		`|_?rand(?:om)?)$`)
	busterValue = regexp.MustCompile(`^(?:0?\.)?\d{5,}$`)
	clockName   = regexp.MustCompile(`(?i)^(?:ts?|timestamp)$`)
	clockValue  = regexp.MustCompile(`^1\d{9}(?:\d{3})?(?:\.\d+)?$`)
)

// isPassing says that a parameter is another one at each visit: the session of a visitor, as its name says and a long
// value that holds digits, or what keeps caches from answering.
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

// Clean is the URL as it may be shown: without user names, tracking and what is another at each visit, otherwise as it
// was.
func Clean(u *url.URL) string {
	c := *u
	c.User = nil
	if c.RawQuery != "" {
		c.RawQuery = strings.Join(meaningful(u), "&")
	}
	c.ForceQuery = false
	return c.String()
}

// Public is the URL of a source as it may be shown: without user names and its query, which may hold a token.
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

// Canonical is what two spellings of a URL share: no scheme, "www.", default port, tracking parameters, sessions, index
// file or slash at the end; the query in order. The fragment stays, for it may tell events of one page apart.
func Canonical(u *url.URL) string {
	host := strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
	host = strings.TrimPrefix(host, "www.")
	if port := u.Port(); port != "" && port != "80" && port != "443" {
		host += ":" + port
	}
	// Cleaning takes out dots and double slashes, and a decoded path is the same for all escapings of it.
	p := u.Path
	if strings.Contains(p, ";") {
		p = sessionPath.ReplaceAllString(p, "")
	}
	if strings.Contains(p, ".") {
		p = indexFile.ReplaceAllString(p, "/")
	}
	p = path.Clean("/" + p)
	key := host + strings.TrimSuffix((&url.URL{Path: p}).EscapedPath(), "/")
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

// genericFragments say what a node is and not which: "#event" is on each page.
var genericFragments = regexp.MustCompile(`(?i)^[/!]*(event|events|this|main|content|schema|top|details?|info` +
	`|primary|person|organization|webpage|place|location|\d)?$`)

// IsGeneric says that the fragment of a URL tells nothing apart.
func IsGeneric(fragment string) bool { return genericFragments.MatchString(fragment) }

// Words is a name fit for comparing: NFKC, lower case, letters and digits only, single spaces.
func Words(name string) string {
	name = strings.ToLower(norm.NFKC.String(name))
	return strings.Join(strings.FieldsFunc(name, func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r)
	}), " ")
}

// SameSite says that two URLs are on the same host and port, "www." aside. Those of http and https are the same.
func SameSite(a, b *url.URL) bool { return site(a) == site(b) }

func site(u *url.URL) string {
	host := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	if ascii, err := idna.ToASCII(host); err == nil {
		host = ascii
	}
	host = strings.TrimPrefix(host, "www.")
	if port := u.Port(); port != "" && port != "80" && port != "443" {
		host += ":" + port
	}
	return host
}
