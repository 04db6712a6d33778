package destination

import (
	"encoding/hex"
	"regexp"
	"strings"
)

// The address of a webhook is often the credential itself: whoever knows it may post. Slack, Zapier and Discord have it
// in the path, Make has nothing else there, others have it in the query. So what follows the first segment of the path
// is sealed, and so is a first segment that does not look like a word.

// mask stands in an address for what is sealed. The beginning of the digest follows it.
const mask = "…"

// shownDigest is how much of a digest is shown, in bytes: enough to tell addresses apart, and no more than that.
const shownDigest = 6

const longestWord = 32 // characters of a first segment that is shown

// words are segments such as hooks, v1, crm-webhook, Inbound2: what people call things.
var words = regexp.MustCompile(`^(?:[A-Z]?[a-z]{0,13}[0-9]{0,3})(?:[-_.][A-Z]?[a-z]{0,13}[0-9]{0,3}){0,3}$`)

var maskedURL = regexp.MustCompile(`(?:/|^)` + mask + `[0-9a-f]*$`)

// Hides reports whether an address has a part that not everybody may see who may see the destination.
func Hides(raw string) bool {
	_, hides := visible(raw)
	return hides
}

// Masked is an address as everybody may see it: scheme, host, port, the first segment of the path where that is a word,
// and the beginning of a digest by which addresses can be told apart. One that hides nothing comes as it is.
func Masked(raw string, digest []byte) string {
	shown, hides := visible(raw)
	if !hides {
		return raw
	}
	return shown + mask + hex.EncodeToString(digest[:min(len(digest), shownDigest)])
}

// IsMasked reports whether an address is what Masked gave: no request can go there.
func IsMasked(raw string) bool { return maskedURL.MatchString(raw) }

// visible is what may be seen of an address, up to where the rest would follow.
func visible(raw string) (shown string, hides bool) {
	scheme, host, rest := split(raw)
	if at := strings.LastIndexByte(host, '@'); at >= 0 { // after a user's name and password
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

// split cuts an address into its scheme, what stands for the host, and what follows it.
func split(raw string) (scheme, host, rest string) {
	scheme, rest, _ = strings.Cut(raw, "://")
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	return scheme, rest[:end], rest[end:]
}

// Exposed reports whether the address lies open although it has a part that is to be sealed: it was recorded by a
// version that did not seal addresses.
func (s Settings) Exposed() bool { return len(s.Address.Data) == 0 && Hides(s.URL) }
