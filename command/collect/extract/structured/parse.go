package structured

import (
	"bytes"
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
	// nodeBytes and attributeBytes are sizes in memory without texts, which the page shares.
	nodeBytes, attributeBytes = 128, 64
	// longTag is the length from which the parts of a tag are counted before it is parsed, maxParts their maximum number.
	// Pictures in a tag make it long and have no parts.
	longTag  = 64 << 10
	maxParts = 10_000
	// minAttribute is the minimum length of an attribute in that count. Shorter ones are too few to matter, see maxParts.
	minAttribute = 8
	// maxToken limits a text, a script or a tag, in bytes.
	maxToken = 6 << 20
)

// Parse parses a page within the budget. The HTML parser itself has no limits, and pages can multiply its work:
// unclosed <b>s are opened again in each following paragraph. Therefore the tags are counted before, as the maximum
// number of elements that they can lead to.
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

// weigh subtracts the cost of a page from the budget.
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
			attributes = len(z.Raw()) / minAttribute
			nodes += again.start(formattingTag(z.Raw()))
		case html.EndTagToken:
			again.end(formattingTag(z.Raw()))
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

// hasSaneTags reports whether no tag has excessive parts, all of which the tokenizer would hold.
func hasSaneTags(text string) bool {
	for len(text) > longTag {
		if last := strings.LastIndexByte(text[:longTag], '>'); last >= 0 {
			text = text[last+1:]
			continue
		}
		_, tag, _ := strings.Cut(text, "<")
		tag, text, _ = strings.Cut(tag, ">")
		if len(tag) > longTag && parts(tag) > maxParts {
			return false
		}
	}
	return true
}

// parts counts possible attributes of a tag.
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

// formatting are the elements that are opened again if a block ended before they were closed.
var formatting = map[atom.Atom]bool{
	atom.A: true, atom.B: true, atom.Big: true, atom.Code: true, atom.Em: true, atom.Font: true, atom.I: true,
	atom.Nobr: true, atom.S: true, atom.Small: true, atom.Strike: true, atom.Strong: true, atom.Tt: true, atom.U: true,
}

// formattingTag returns the name of a tag if it is of formatting, else 0.
func formattingTag(raw []byte) atom.Atom {
	raw = bytes.TrimLeft(raw[:min(len(raw), len("</strike>"))], "</")
	var name [len("</strike>")]byte
	n := 0
	for n < len(raw) && raw[n] > ' ' && raw[n] != '/' && raw[n] != '>' {
		name[n] = raw[n] | 0x20 // small
		n++
	}
	if tag := atom.Lookup(name[:n]); formatting[tag] {
		return tag
	}
	return 0
}

// reopened counts unclosed formatting elements.
type reopened struct {
	open int
	each map[atom.Atom]int
}

// start returns the maximum number of elements that are opened again before a tag.
func (r *reopened) start(tag atom.Atom) int {
	before := r.open
	if tag != 0 {
		if r.each == nil {
			r.each = map[atom.Atom]int{}
		}
		if tag == atom.A && r.each[tag] > 0 {
			return before // a link ends the previous one
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
