package destination

import (
	"encoding/hex"
	"regexp"
	"strings"
)

// The address of a webhook is often the credential itself: Slack, Zapier and Discord have it in the path, Make has
// only that in the path, others have it in the query. So the address after the first segment of the path is sealed,
// and so is a first segment that does not resemble a word.

// mask replaces the sealed part of an address. The beginning of the digest follows it.
const mask = "…"

// shownDigest is the length in bytes of the visible part of a digest: enough to distinguish addresses.
const shownDigest = 6

const longestWord = 32 // characters of a visible first segment

// words match segments such as hooks, v1, crm-webhook, Inbound2.
var words = regexp.MustCompile(`^(?:[A-Z]?[a-z]{0,13}[0-9]{0,3})(?:[-_.][A-Z]?[a-z]{0,13}[0-9]{0,3}){0,3}$`)

var maskedURL = regexp.MustCompile(`(?:/|^)` + mask + `[0-9a-f]*$`)

// Hides reports whether an address has a part that is not visible to all readers of the destination.
func Hides(raw string) bool {
	_, hides := visible(raw)
	return hides
}

// Masked returns the address for all readers: scheme, host, port, the first segment of the path if that is a word, and
// the beginning of a digest by which addresses can be distinguished. An address without a hidden part is returned
// unchanged.
func Masked(raw string, digest []byte) string {
	shown, hides := visible(raw)
	if !hides {
		return raw
	}
	return shown + mask + hex.EncodeToString(digest[:min(len(digest), shownDigest)])
}

// IsMasked reports whether Masked has masked an address: no request can be sent there.
func IsMasked(raw string) bool { return maskedURL.MatchString(raw) }

// visible returns the visible part of an address, up to the hidden part.
func visible(raw string) (shown string, hides bool) {
	scheme, host, rest := split(raw)
	if at := strings.LastIndexByte(host, '@'); at >= 0 { // after user name and password
		host, hides = host[at+1:], true
	}
	if host == "" {
		return "", raw != ""
	}
	path := rest
	if end := strings.IndexAny(rest, "?#"); end >= 0 {
		path, hides = rest[:end], true
	}
	shown = scheme + "://" + host + "/"
	segment, below, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	hides = hides || below != ""
	switch {
	case segment == "":
		return shown, hides
	case len(segment) > longestWord || !words.MatchString(segment):
		return shown, true
	}
	return shown + segment + "/", hides
}

// sameOrigin reports whether two addresses, masked or not, have the same scheme, host and port.
func sameOrigin(a, b string) bool { return origin(a) == origin(b) }

func origin(raw string) string {
	scheme, host, _ := split(strings.ToLower(raw))
	return scheme + "://" + strings.TrimSuffix(host, map[string]string{"https": ":443", "http": ":80"}[scheme])
}

// split splits an address into its scheme, the host with credentials, and the rest.
func split(raw string) (scheme, host, rest string) {
	scheme, rest, _ = strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return scheme, rest[:end], rest[end:]
}

// Exposed reports whether the address is stored open although it has a part to be sealed: a version before sealed
// addresses recorded it.
func (s Settings) Exposed() bool { return len(s.Address.Data) == 0 && Hides(s.URL) }
