package command

import (
	"net/url"
	"regexp"
	"strings"
	"time"
	"unicode"
)

// maxAhead is how far ahead of the clock the time of an event may be: a day, for clocks that are set to a wrong zone.
const maxAhead = 24 * time.Hour

// checkAttributes refuses an event whose source, subject or time can't be sent as a CloudEvent's.
func checkAttributes(in *Publish, now time.Time) error {
	if err := requireText("source", in.Source, maxSourceLength); err != nil {
		return err
	}
	if err := checkText("subject", in.Subject, maxSourceLength); err != nil {
		return err
	}
	switch {
	case !isURIReference(in.Source):
		return refuse(Malformed, "source", "source must be a URI-reference, such as /news/local or https://example.org/: "+
			"percent-encode spaces and other characters that a URI can't have; it is %q", in.Source)
	case strings.ContainsFunc(in.Subject, unicode.IsControl):
		return refuse(Malformed, "subject", "subject must not contain tabs, line breaks and other control characters")
	case in.Subject != "" && strings.TrimSpace(in.Subject) == "":
		return refuse(Malformed, "subject", "subject must not be blank; leave it out")
	case in.Time.Before(time.Unix(0, 0)), in.Time.After(now.Add(maxAhead)):
		return refuse(Malformed, "time", "time must be from 1970 to a day ahead; leave it out for now")
	}
	return nil
}

var uriCharacters = regexp.MustCompile(`^(?:[-\w.~:/?#@!$&'()*+,;=\[\]]|%[0-9A-Fa-f]{2})+$`)

// isURIReference reports whether a text is a URI-reference of RFC 3986 that url.Parse takes as well, as receivers do.
// It is stricter than url.Parse: characters outside of ASCII have to be percent-encoded, and brackets are for hosts.
func isURIReference(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.String() != "" && uriCharacters.MatchString(text) && strings.Count(text, "#") <= 1 &&
		!strings.ContainsAny(strings.Replace(text, parsed.Host, "", 1), "[]")
}
