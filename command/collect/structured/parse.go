package structured

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/budget"
)

const (
	// nodeBytes and attributeBytes are what these take in memory, texts aside: those are shared with the page.
	nodeBytes, attributeBytes = 128, 64
	// longTag is from when on the parts of a tag are counted before anything is made of it, maxParts how many it may
	// have. Pictures that are written into a tag make it long and have no parts.
	longTag  = 64 << 10
	maxParts = 10_000
	// leastAttribute is how many bytes of a tag are counted as an attribute. Shorter ones are too few to matter: see
	// maxParts.
	leastAttribute = 8
	// maxToken is how long a text, a script or a tag may be, in bytes.
	maxToken = 6 << 20
)

// Parse parses a page, within the budget. The parser itself knows no bounds, and a page decides how much it makes of
// it: unclosed <b>s are opened again in each paragraph that follows. So the tags are looked through before, and counted
// for as many elements as they can come to.
func Parse(b *budget.Budget, text string) (*html.Node, error) {
	if err := weigh(b, text); err != nil {
		return nil, err
	}
	root, err := html.Parse(strings.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("%w: parse html: %w", collect.ErrUnsupportedContent, err)
	}
	return root, nil
}

// weigh takes what a page comes to off the budget.
func weigh(b *budget.Budget, text string) error {
	if !hasSaneTags(text) {
		b.Refuse("a single tag is too large")
		return fmt.Errorf("parse html: %w", b.Err())
	}
	b.Memory(len(text))
	z := html.NewTokenizer(strings.NewReader(text))
	z.SetMaxBuf(maxToken)
	again := reopened{}
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		nodes, attributes := 1, 0
		switch kind {
		case html.StartTagToken, html.SelfClosingTagToken:
			attributes = len(z.Raw()) / leastAttribute
			name, _ := z.TagName()
			nodes += again.start(atom.Lookup(name))
		case html.EndTagToken:
			name, _ := z.TagName()
			again.end(atom.Lookup(name))
			nodes = 0
		default:
			nodes += again.open
		}
		if !b.Work(8*nodes+2*attributes) || !b.Memory(nodeBytes*nodes+attributeBytes*attributes) {
			break
		}
	}
	if errors.Is(z.Err(), html.ErrBufferExceeded) {
		b.Refuse("a single text is too large")
	}
	if err := b.Err(); err != nil {
		return fmt.Errorf("parse html: %w", err)
	}
	if err := z.Err(); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%w: parse html: %w", collect.ErrUnsupportedContent, err)
	}
	return nil
}

// hasSaneTags says that no tag has more parts than any honest one: the tokenizer keeps them all before it lets go.
func hasSaneTags(text string) bool {
	for at := 0; ; {
		i := strings.IndexByte(text[at:], '<')
		if i < 0 {
			return true
		}
		at += i + 1
		end := strings.IndexByte(text[at:], '>')
		if end < 0 {
			end = len(text) - at
		}
		if end > longTag {
			if parts(text[at:at+end]) > maxParts {
				return false
			}
		}
		at += end
	}
}

// parts counts what may be attributes of a tag.
func parts(tag string) int {
	n := 0
	for i := 0; i < len(tag); i++ {
		switch c := tag[i]; c {
		case ' ', '\n', '\t', '\r', '\f', '/':
			n++
		case '=':
			rest := strings.TrimLeft(tag[i+1:], " \n\t\r\f")
			if rest == "" || rest[0] != '"' && rest[0] != '\'' {
				continue
			}
			i = len(tag) - len(rest)
			end := strings.IndexByte(tag[i+1:], rest[0])
			if end < 0 {
				return n
			}
			i += end + 1
		}
	}
	return n
}

// formatting are the elements that are opened again where a block ended before they were closed.
var formatting = map[atom.Atom]bool{
	atom.A: true, atom.B: true, atom.Big: true, atom.Code: true, atom.Em: true, atom.Font: true, atom.I: true,
	atom.Nobr: true, atom.S: true, atom.Small: true, atom.Strike: true, atom.Strong: true, atom.Tt: true, atom.U: true,
}

// reopened counts the formatting elements that are not closed.
type reopened struct {
	open int
	each map[atom.Atom]int
}

// start says how many elements are opened again before a tag, at most.
func (r *reopened) start(tag atom.Atom) int {
	before := r.open
	if formatting[tag] {
		if r.each == nil {
			r.each = map[atom.Atom]int{}
		}
		if tag == atom.A && r.each[tag] > 0 {
			return before // a link ends the one before it
		}
		r.each[tag]++
		r.open++
	}
	return before
}

func (r *reopened) end(tag atom.Atom) {
	if r.each[tag] > 0 {
		r.each[tag]--
		r.open--
	}
}
