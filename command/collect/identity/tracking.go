package identity

import (
	_ "embed" // for the list
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
)

//go:embed tracking.txt
var trackingText string

// counters are the parameters of tracking.txt.
type counters struct {
	names, doubtful, values map[string]bool
	prefixes                []string
}

var tracking = sync.OnceValue(func() (c counters) {
	c.names, c.doubtful, c.values = map[string]bool{}, map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(trackingText) {
		line = strings.TrimSpace(line)
		switch mark, rest, _ := strings.Cut(line, " "); {
		case line == "" || mark == "#":
		case mark == "?":
			c.doubtful[rest] = true
		case mark == "=":
			c.values[rest] = true
		case strings.HasSuffix(line, "*"):
			c.prefixes = append(c.prefixes, strings.TrimSuffix(line, "*"))
		default:
			c.names[line] = true
		}
	}
	return c
})

// has reports whether a name is always that of a campaign or a visitor.
func (c counters) has(name string) bool {
	return c.names[name] || slices.ContainsFunc(c.prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

// meaningful returns the parameters of a query except those of campaigns, visitors and single visits.
func meaningful(u *url.URL) []string {
	if u.RawQuery == "" {
		return nil
	}
	var kept, doubtful []string
	for pair := range strings.SplitSeq(u.RawQuery, "&") {
		name, value := unescaped(pair)
		switch lower := strings.ToLower(name); {
		case pair == "" || tracking().has(lower) || visitorSession.MatchString(name) || isPassing(name, value):
		case tracking().doubtful[lower]:
			doubtful = append(doubtful, pair)
			kept = append(kept, pair)
		default:
			kept = append(kept, pair)
		}
	}
	if len(doubtful) == 0 {
		return kept
	}
	sure := len(kept) > len(doubtful) || namesPage(u)
	return slices.DeleteFunc(kept, func(pair string) bool {
		_, value := unescaped(pair)
		return slices.Contains(doubtful, pair) && (sure || isCampaign(value))
	})
}

func unescaped(pair string) (name, value string) {
	name, value, _ = strings.Cut(pair, "=")
	if text, err := url.QueryUnescape(name); err == nil {
		name = text
	}
	return name, value
}

// namesPage reports whether the path of an address identifies a page: it ends in a number or in words, and is not a
// script with a parameter.
func namesPage(u *url.URL) bool {
	last := path.Base(strings.TrimRight(u.Path, "/"))
	ext := strings.ToLower(path.Ext(last))
	if ext != "" && ext != ".html" && ext != ".htm" {
		return false
	}
	return strings.ContainsAny(last, "0123456789-_")
}

// isCampaign reports whether a value belongs to a campaign or a site, or is empty.
func isCampaign(value string) bool {
	value, err := url.QueryUnescape(strings.ToLower(value))
	if err != nil {
		return false
	}
	word := strings.FieldsFunc(value, func(r rune) bool { return r == '-' || r == '_' || r == ' ' })
	return len(word) == 0 || tracking().values[word[0]] || strings.Contains(value, "://") ||
		strings.HasSuffix(value, ".com") ||
		strings.HasSuffix(value, ".org") || strings.HasSuffix(value, ".net")
}
