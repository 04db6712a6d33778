// Package selectors finds elements by CSS selectors, with a bound of work: each element of a page is compared once with
// each part of a selector, whatever operators write and pages contain.
package selectors

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"github.com/andybalholm/cascadia"
	"golang.org/x/net/html"

	"carillon/command/collect/budget"
)

const (
	// maxLength and maxParts limit a selector.
	maxLength = 200
	maxParts  = 8
)

// ErrInvalid is returned for a text that is no selector, or one that is not supported.
var ErrInvalid = errors.New("not a supported CSS selector")

// Selector is a compiled selector. The zero value selects nothing.
type Selector struct{ parts []part }

// part is a compound selector and its relation to the part before it.
type part struct {
	matcher  cascadia.Sel
	child    bool // the part before is its parent, else an ancestor
	position bool // it counts siblings
}

var (
	// pseudo matches pseudo-classes, position those that count siblings.
	pseudo   = regexp.MustCompile(`:+[\w-]+(?:\([^()]*\))?`)
	position = regexp.MustCompile(`^:(?:first|last|only|nth|nth-last)-(?:child|of-type)` +
		`(?:\(\s*(?:odd|even|[\d+n -]+)\s*\))?$`)
	// quoted matches the values of attributes, combinator what separates two parts.
	quoted     = regexp.MustCompile(`\[[^\]]*\]`)
	combinator = regexp.MustCompile(`\s*>\s*|\s+`)
)

// Compile parses a selector of tags, classes, ids, attributes and positions, with descendants and children.
func Compile(text string) (Selector, error) {
	text = strings.TrimSpace(text)
	if text == "" || len(text) > maxLength || strings.ContainsFunc(text, unicode.IsControl) {
		return Selector{}, fmt.Errorf("%w: it must have 1 to %d bytes in a line", ErrInvalid, maxLength)
	}
	// Attributes and positions may have spaces, which separate parts elsewhere.
	hidden := hide(hide(text, quoted), pseudo)
	if strings.ContainsAny(hidden, ",+~\\") {
		return Selector{}, fmt.Errorf("%w: use no lists, siblings and escapes", ErrInvalid)
	}
	cuts := combinator.FindAllStringIndex(hidden, -1)
	if len(cuts) >= maxParts {
		return Selector{}, fmt.Errorf("%w: it may have %d parts", ErrInvalid, maxParts)
	}
	var s Selector
	from, child := 0, false
	for _, cut := range append(cuts, []int{len(text), len(text)}) {
		p, err := compilePart(text[from:cut[0]])
		if err != nil {
			return Selector{}, err
		}
		p.child = child
		s.parts = append(s.parts, p)
		from, child = cut[1], strings.Contains(text[cut[0]:cut[1]], ">")
	}
	return s, nil
}

func compilePart(text string) (part, error) {
	var p part
	for _, class := range pseudo.FindAllString(hide(text, quoted), -1) {
		if !position.MatchString(class) {
			return p, fmt.Errorf("%w: %s", ErrInvalid, class)
		}
		p.position = true
	}
	matcher, err := cascadia.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	p.matcher = matcher
	return p, nil
}

// hide replaces the matches in a text by letters, so that positions stay.
func hide(text string, what *regexp.Regexp) string {
	return what.ReplaceAllStringFunc(text, func(found string) string { return strings.Repeat("x", len(found)) })
}

// All returns at most limit elements within a root that match, in order. It ends with the budget.
func (s Selector) All(b *budget.Budget, root *html.Node, limit int) []*html.Node {
	w := walker{
		Selector: s,
		budget:   b,
		limit:    limit,
	}
	if len(s.parts) > 0 {
		w.walk(root, 1, 1)
	}
	return w.found
}

// walker walks through a page. A set of parts is a bit each: bit i means that the parts before i are matched.
type walker struct {
	Selector
	budget *budget.Budget
	limit  int
	found  []*html.Node
}

// walk visits the children of a node; above are the parts that its ancestors and it allow, parent those that it does.
func (w *walker) walk(n *html.Node, above, parent uint) {
	siblings := 0
	for range n.ChildNodes() {
		siblings++
	}
	for c := n.FirstChild; c != nil && len(w.found) < w.limit; c = c.NextSibling {
		if c.Type != html.ElementNode {
			continue
		}
		below := uint(1)
		for i, p := range w.parts {
			allowed := above
			if p.child {
				allowed = parent
			}
			cost := 4
			if p.position {
				cost += siblings / 4
			}
			if allowed>>i&1 == 0 {
				continue
			}
			if !w.budget.Work(cost) {
				return
			}
			if p.matcher.Match(c) {
				below |= 1 << (i + 1)
			}
		}
		if below>>len(w.parts)&1 == 1 {
			w.found = append(w.found, c)
		}
		w.walk(c, above|below, below)
	}
}
