package egress

import (
	"errors"
	"regexp"
	"strings"
)

// addresses matches URLs in a text, such as the errors of http.Client quote them.
var addresses = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*://[^\s"'<>]*`)

// ShownAddress returns the origin of a configured URL for logs, errors and pages: user, path and parameters often are
// the secret itself, and are replaced by "…".
func ShownAddress(raw string) string {
	scheme, rest, _ := strings.Cut(raw, "://")
	host, path := rest, ""
	if end := strings.IndexAny(rest, "/?#"); end >= 0 {
		host, path = rest[:end], rest[end:]
	}
	if at := strings.LastIndexByte(rest, '@'); at >= len(host) { // a user or password with a slash
		return scheme + "://…"
	}
	host = host[strings.LastIndexByte(host, '@')+1:]
	if path == "" || path == "/" {
		return scheme + "://" + host
	}
	return scheme + "://" + host + "/…"
}

// HideAddresses returns an error whose text has all URLs as ShownAddress shows them. The error itself is not wrapped,
// so that none of its parts can be logged. nil stays nil.
func HideAddresses(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(addresses.ReplaceAllStringFunc(err.Error(), ShownAddress))
}
