package structured

import (
	"fmt"
	"slices"
	"strings"

	"golang.org/x/net/html"
)

// path returns the position of an item in its syntax, such as "Event[3].location".
func (it *item) path() string {
	const deepest = 6
	var parts []string
	for at := it; at != nil; at = at.around {
		if at.within == "" || at.around == nil || len(parts) == deepest {
			kind := "thing"
			if len(at.types) > 0 {
				kind = at.types[0]
			}
			parts = append(parts, fmt.Sprintf("%s[%d]", cut(kind, 40), at.number))
			break
		}
		parts = append(parts, cut(at.within, 40))
	}
	slices.Reverse(parts)
	return strings.Join(parts, ".")
}

// element returns the position of a value of the item on the page; nil stands for the item itself.
func (it *item) element(at *html.Node) string {
	if at == nil {
		at = it.node
	}
	if at == nil {
		return fmt.Sprintf("script[%d]", it.block)
	}
	return elementPath(at)
}

// elementPath names an element by a few of its ancestors, up to one with an id.
func elementPath(n *html.Node) string {
	const deepest = 4
	var parts []string
	for ; n != nil && n.Type == html.ElementNode && len(parts) < deepest; n = n.Parent {
		name := n.Data
		id, class := cut(strings.TrimSpace(attr(n, "id")), 40), strings.Fields(cut(attr(n, "class"), 80))
		switch {
		case id != "":
			name += "#" + id
		case len(class) > 0:
			name += "." + class[0]
		}
		parts = append(parts, name)
		if id != "" {
			break
		}
	}
	slices.Reverse(parts)
	return strings.Join(parts, " > ")
}

// attr returns the value of an attribute, "" if there is none.
func attr(n *html.Node, name string) string {
	for i := range n.Attr {
		if n.Attr[i].Key == name && n.Attr[i].Namespace == "" {
			return n.Attr[i].Val
		}
	}
	return ""
}

// hasAttr reports whether the element has the attribute, even an empty one.
func hasAttr(n *html.Node, name string) bool {
	for i := range n.Attr {
		if n.Attr[i].Key == name && n.Attr[i].Namespace == "" {
			return true
		}
	}
	return false
}
