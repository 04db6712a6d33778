package links

import (
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
)

// maxLabel limits how much of each part of a link's label is read, in bytes.
const maxLabel = 200

// Label returns the words of a link on one line: its title, its text, and those of its pictures.
func Label(n *html.Node) string {
	var label strings.Builder
	add := func(text string) {
		label.WriteString(text[:min(len(text), maxLabel)] + " ")
	}
	names := func(n *html.Node) {
		for _, a := range n.Attr {
			if a.Key == "title" || a.Key == "aria-label" || a.Key == "alt" {
				add(a.Val)
			}
		}
	}
	names(n)
	for c := range n.Descendants() {
		if label.Len() > 2*maxLabel {
			break
		}
		switch {
		case c.Type == html.TextNode:
			add(c.Data)
		case c.DataAtom == atom.Img:
			names(c)
		}
	}
	return strings.Join(strings.Fields(strings.ToValidUTF8(label.String(), " ")), " ")
}

// IsAbout reports whether an element is around the text of a page rather than in it.
func IsAbout(n *html.Node) bool {
	switch n.DataAtom {
	case atom.Nav, atom.Footer, atom.Aside:
		return true
	case atom.Header:
		return n.Parent != nil && n.Parent.DataAtom == atom.Body
	default:
	}
	for _, a := range n.Attr {
		if a.Key == "role" && (a.Val == "navigation" || a.Val == "banner" || a.Val == "contentinfo") {
			return true
		}
	}
	return false
}
