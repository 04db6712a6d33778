package structured

import (
	"cmp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// named are the properties that are a text even of an element whose value is its link: <a itemprop="name" href="…">.
var named = map[string]bool{
	"name": true, "headline": true, "summary": true, "description": true, "streetAddress": true, "addressLocality": true,
	"addressRegion": true, "postalCode": true, "addressCountry": true, "telephone": true, "startDate": true,
	"endDate": true,
}

// elementText returns the value of a property of an element, for Microdata and RDFa: an attribute for that, else the
// visible text.
func (g *graph) elementText(n *html.Node, prop string) string {
	if hasAttr(n, "content") {
		return attr(n, "content")
	}
	var text string
	switch n.DataAtom {
	case atom.Meta:
		return ""
	case atom.Img:
		text = imageRef(n)
	case atom.Audio, atom.Embed, atom.Iframe, atom.Source, atom.Track, atom.Video:
		text = cmp.Or(attr(n, "src"), attr(n, "data-src"), largest(attr(n, "srcset")))
	case atom.A, atom.Area:
		if !named[prop] {
			text = attr(n, "href")
		}
	case atom.Link:
		return attr(n, "href")
	case atom.Object:
		text = attr(n, "data")
	case atom.Data, atom.Meter:
		text = attr(n, "value")
	default:
		text = attr(n, "datetime")
	}
	if text != "" {
		return text
	}
	if prop == "description" {
		return g.inner(n)
	}
	return g.shown(n, maxName)
}

// imageRef returns the picture of an img, also if it loads late.
func imageRef(n *html.Node) string {
	for _, name := range []string{"data-src", "data-lazy-src", "data-original", "src"} {
		if ref := strings.TrimSpace(attr(n, name)); ref != "" && !strings.HasPrefix(ref, "data:") && !isPlaceholder(ref) {
			return ref
		}
	}
	for _, name := range []string{"data-srcset", "srcset"} {
		if ref := largest(attr(n, name)); ref != "" {
			return ref
		}
	}
	return attr(n, "src")
}

// largest returns the largest picture of a srcset: "a.jpg 480w, b.jpg 1024w", or "a.jpg, b.jpg 2x".
func largest(srcset string) string {
	best, size := "", 0.0
	for part := range strings.SplitSeq(cut(srcset, maxName), ", ") {
		fields := strings.Fields(strings.Trim(part, ", \n\t"))
		if len(fields) == 0 {
			continue
		}
		n := 1.0
		if len(fields) > 1 {
			if v, err := strconv.ParseFloat(strings.TrimRight(fields[1], "wxh"), 64); err == nil {
				n = v
			}
		}
		if n > size {
			best, size = fields[0], n
		}
	}
	return best
}

// blocks are elements whose text is separate from that around them.
var blocks = map[atom.Atom]bool{
	atom.Br: true, atom.P: true, atom.Div: true, atom.Li: true, atom.Tr: true, atom.Td: true, atom.Th: true, atom.Dd: true,
	atom.Dt: true, atom.Section: true, atom.H1: true, atom.H2: true, atom.H3: true, atom.H4: true, atom.H5: true,
	atom.H6: true,
}

// shown returns the visible text of an element, up to a number of bytes.
func (g *graph) shown(n *html.Node, limit int) string {
	var b strings.Builder
	g.show(&b, n, nil, limit)
	text := b.String()
	if !g.budget.Memory(len(text)) {
		return ""
	}
	return strings.TrimSpace(text)
}

// show appends the visible text of an element without another one in it. Optional.
func (g *graph) show(b *strings.Builder, n, without *html.Node, limit int) {
	for c := n.FirstChild; c != nil && b.Len() < limit && g.budget.Work(1); c = c.NextSibling {
		switch {
		case c == without:
		case c.Type == html.TextNode:
			b.WriteString(cut(c.Data, limit-b.Len()))
		case c.DataAtom == atom.Script, c.DataAtom == atom.Style, c.DataAtom == atom.Template:
		case blocks[c.DataAtom]:
			b.WriteByte('\n')
			g.show(b, c, without, limit)
			b.WriteByte('\n')
		case c.DataAtom == atom.Small: // such as a line below the title, but no cents
			if last, _ := utf8.DecodeLastRuneInString(b.String()); unicode.IsLetter(last) {
				b.WriteByte(' ')
			}
			g.show(b, c, without, limit)
			b.WriteByte(' ')
		default:
			g.show(b, c, without, limit)
		}
	}
}

// inner returns the markup of an element; plain text is returned unchanged.
func (g *graph) inner(n *html.Node) string {
	size, plain := 0, true
	for c := range n.Descendants() {
		if !g.budget.Work(2) {
			return ""
		}
		plain = plain && c.Type == html.TextNode
		size += len(c.Data) + 8
		for _, a := range c.Attr {
			size += len(a.Key) + len(a.Val)
		}
	}
	if plain || size > maxDescription {
		return g.shown(n, maxDescription)
	}
	if !g.budget.Memory(size) {
		return ""
	}
	var b strings.Builder
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if err := html.Render(&b, c); err != nil {
			return g.shown(n, maxDescription)
		}
	}
	return strings.TrimSpace(b.String())
}

// settle indexes an item of elements by its id. Two with one id are combined, unless their names or dates differ:
// templates give each event of a list the same id. Each syntax has separate items; equal ones are found later.
func (g *graph) settle(it *item) {
	if it.id == "" {
		return
	}
	have := g.byID[it.id]
	switch {
	case have == nil:
		g.byID[it.id] = it
		return
	case have == it || have.syntax != it.syntax:
		return
	}
	for _, prop := range []string{"name", "startDate"} {
		if a, b := have.one(prop), it.one(prop); a != "" && b != "" && a != b {
			have.sharesID, it.sharesID = true, true
			return
		}
	}
	for prop, values := range it.props {
		if len(have.props[prop]) == 0 {
			have.props[prop] = values
		}
	}
	for _, t := range it.types {
		have.types = appendNew(have.types, t)
	}
	it.props, it.types, it.repeats = have.props, have.types, have
}
