// Package robots parses robots.txt files by RFC 9309, and decides whether a crawler may fetch a path.
//
// A file has groups of rules, each for one or more user agents. All groups that name our product token are merged;
// without one, those for "*" count. The longest rule that matches a path wins, and among equals the one that allows.
// Beyond the RFC, a few common misspellings of "disallow" are accepted, and Crawl-delay and Sitemap lines are read.
package robots

import (
	"strconv"
	"strings"
	"time"
)

// MaxBytes limits the read part of a file; the rest is ignored (RFC 9309, section 2.5, requires at least 500 KiB).
const MaxBytes = 512 << 10

// Rules is a parsed file. The zero value allows everything. It is safe for concurrent use.
type Rules struct {
	groups   []*group
	sitemaps []string
}

type group struct {
	agents []string // product tokens in lower case, "*" for all
	rules  []rule
	delay  time.Duration
}

type rule struct {
	pattern string
	allow   bool
}

// Parse parses a file. It never fails: unknown lines are skipped, and an HTML page served as robots.txt allows
// everything.
func Parse(data []byte) *Rules {
	if len(data) > MaxBytes {
		data = data[:MaxBytes]
	}
	p := parser{rules: &Rules{}}
	for line := range strings.FieldsFuncSeq(decode(data), func(r rune) bool { return r == '\n' || r == '\r' }) {
		if key, value, ok := directive(line); ok {
			p.take(key, value)
		}
	}
	return p.rules
}

type parser struct {
	rules *Rules
	// current collects rules; open reports that user-agent lines still add to it.
	current *group
	open    bool
}

func (p *parser) take(key, value string) {
	switch key {
	case "user-agent", "useragent", "user agent":
		if !p.open {
			p.current, p.open = &group{}, true
			p.rules.groups = append(p.rules.groups, p.current)
		}
		p.current.agents = append(p.current.agents, productToken(value))
	case "allow", "disallow", "dissallow", "dissalow", "disalow", "diasllow", "disallaw":
		p.open = false
		// A rule before any user agent belongs to none, and an empty one has no effect.
		if p.current != nil && value != "" {
			p.current.rules = append(p.current.rules, rule{normalise(value), key == "allow"})
		}
	case "crawl-delay":
		if seconds, err := strconv.ParseFloat(value, 64); err == nil && p.current != nil && seconds > 0 && seconds < 1e6 {
			p.current.delay = time.Duration(seconds * float64(time.Second))
		}
	case "sitemap", "site-map":
		if value != "" {
			p.rules.sitemaps = append(p.rules.sitemaps, value)
		}
	}
}

// directive splits a line into a key in lower case and its value. The colon is optional between just two words.
func directive(line string) (key, value string, ok bool) {
	line, _, _ = strings.Cut(line, "#")
	line = strings.TrimSpace(line)
	key, value, ok = strings.Cut(line, ":")
	if !ok {
		words := strings.Fields(line)
		if len(words) != 2 {
			return "", "", false
		}
		key, value = words[0], words[1]
	}
	return strings.ToLower(strings.TrimSpace(key)), strings.TrimSpace(value), true
}

// productToken returns the product token: "carillon" of "Carillon/1.0 (…)".
func productToken(value string) string {
	if value == "*" || strings.HasPrefix(value, "* ") {
		return "*"
	}
	end := strings.IndexFunc(value, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && r != '-' && r != '_'
	})
	if end >= 0 {
		value = value[:end]
	}
	return strings.ToLower(value)
}

// Allowed reports whether the user agent, of which only the product token counts, may fetch the path. The path is that
// of a request line: escaped, with its query.
func (r *Rules) Allowed(userAgent, path string) bool {
	if path == "" {
		path = "/"
	}
	if path == "/robots.txt" {
		return true
	}
	path = normalise(path)
	allow, longest := true, -1
	for _, g := range r.groupsFor(userAgent) {
		for _, rule := range g.rules {
			n := len(rule.pattern)
			if n < longest || n == longest && allow || !matches(rule.pattern, path) {
				continue
			}
			allow, longest = rule.allow, n
		}
	}
	return allow
}

// CrawlDelay returns the requested pause between requests of the user agent, 0 if there is none.
func (r *Rules) CrawlDelay(userAgent string) time.Duration {
	var delay time.Duration
	for _, g := range r.groupsFor(userAgent) {
		delay = max(delay, g.delay)
	}
	return delay
}

// Sitemaps returns the unchecked sitemap URLs, for all user agents.
func (r *Rules) Sitemaps() []string { return r.sitemaps }

func (r *Rules) groupsFor(userAgent string) []*group {
	token := productToken(userAgent)
	var named, general []*group
	for _, g := range r.groups {
		for _, agent := range g.agents {
			switch agent {
			case "":
			case token:
				named = append(named, g)
			case "*":
				general = append(general, g)
			}
		}
	}
	if len(named) > 0 {
		return named
	}
	return general
}
