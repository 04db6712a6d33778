package listing

import (
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
	"carillon/command/collect/sources/site"
)

// look examines a page of a listing.
type look struct {
	budget *budget.Budget
	html   *site.HTML
	at     position
	window timing.Window

	// lists are the addresses of the listing's pages without their numbers.
	lists []string
	// next is the page that the listing names as the following one, numbered are those that it names by number.
	next     *url.URL
	numbered []numbered
	// months are the following ones; unnamed marks next as a month whose address does not name it.
	months  []month
	unnamed bool
	// content and about are the links in the text and around it.
	content, about []*url.URL
	pages          *links.Set
	// steps may lead to other pages of the listing by their words; scripted reports one that only a script follows.
	steps    []step
	scripted bool
	// beyond counts the pages of days outside of the window, anchors the links.
	beyond, anchors int
}

// linkWork is the cost of a link, in steps.
const linkWork = 250

type numbered struct {
	url *url.URL
	n   int
}

// known sets the addresses of the listing. Only its first page may have been redirected; otherwise redirects could
// lead to ever new listings.
func (l *look) known(page collect.Known) {
	if u, err := url.Parse(page.Address); err == nil {
		list, _ := pageNumber(u)
		l.lists = append(l.lists, list)
		l.pages.Leave(u)
	}
	if page.Root {
		list, _ := pageNumber(l.html.URL)
		l.lists = append(l.lists, list)
	}
}

// around examines each link of the page.
func (l *look) around() {
	var walk func(n *html.Node, about bool)
	walk = func(n *html.Node, about bool) {
		if !l.budget.Work(2) {
			return
		}
		if n.Type == html.ElementNode {
			about = about || links.IsAbout(n)
			switch n.DataAtom {
			case atom.A, atom.Area, atom.Link:
				l.link(n, about)
			case atom.Button:
				l.button(n)
			default:
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, about)
		}
	}
	walk(l.html.Root, false)
}

// link sorts the address that an element links.
func (l *look) link(n *html.Node, about bool) {
	var href, rel string
	download := false
	for _, a := range n.Attr {
		switch a.Key {
		case "href":
			href = strings.TrimSpace(a.Val)
		case "rel":
			rel = strings.ToLower(a.Val)
		case "download":
			download = true
		}
	}
	if download {
		return
	}
	if l.anchors++; l.anchors > maxAnchors || !l.budget.Work(linkWork) {
		return
	}
	if href == "" || href[0] == '#' || strings.HasPrefix(href, "javascript:") {
		l.scripted = l.scripted || unfollowed(n)
		return
	}
	rels := strings.Fields(rel)
	next := slices.Contains(rels, "next")
	if n.DataAtom == atom.Link && !next {
		return
	}
	u := l.pages.Resolve(href)
	if u == nil || links.IsFile(u) || isAct(u) {
		return
	}
	if slices.Contains(rels, "prev") || slices.Contains(rels, "previous") {
		return
	}
	if next && l.at.way == byMonth && l.month(u, n) {
		return
	}
	if next && !l.isHere(u) {
		l.pages.Leave(u)
		if l.next == nil {
			l.next = u
		}
		return
	}
	if list, number := pageNumber(u); slices.Contains(l.lists, list) {
		if number > 0 {
			l.numbered = append(l.numbered, numbered{u, number})
		}
		return
	}
	if slices.Contains(rels, "nofollow") { // the site asks not to follow; endless calendars do
		return
	}
	content := &l.content
	if about {
		content = &l.about
	}
	switch {
	case l.month(u, n): // followed as pages are
	case l.isBeyond(u):
		l.beyond++
	case l.step(u, n, content):
	default:
		*content = append(*content, u)
	}
}

// isHere reports whether an address is that of this page.
func (l *look) isHere(u *url.URL) bool {
	return identity.Canonical(u) == identity.Canonical(l.html.URL)
}

// isBeyond reports whether an address names a day or month outside of the window.
func (l *look) isBeyond(u *url.URL) bool {
	from, to, ok := days(u)
	return ok && (to.Before(l.window.From) || from.After(l.window.To))
}

// act matches addresses that change something or belong to one visitor.
var act = regexp.MustCompile(`(?i)(?:^|[/&?])(?:log-?(?:in|out)|sign-?(?:in|out|up)|wp-login\.php|wp-admin` +
	`|add[-_]to[-_](?:cart|basket|wishlist)|cart|basket|checkout|replytocom|unsubscribe)(?:$|[/=&?])`)

func isAct(u *url.URL) bool { return act.MatchString(u.Path) || act.MatchString("?"+u.RawQuery) }

// follow adds the pages that follow this one.
func (l *look) follow(read *collect.Page) {
	page := collect.Link{Role: site.RolePage}
	l.takeSteps()
	for _, u := range l.html.Shown {
		if u := l.pages.Resolve(u.String()); u != nil && !links.IsFile(u) && !l.isList(u) {
			l.pages.AddURL(u, page)
		}
	}
	for _, u := range slices.Concat(l.content, l.about) {
		if !l.budget.Work(40) {
			return
		}
		l.pages.AddURL(u, page)
	}
	if l.anchors > maxAnchors {
		read.Notes.Add(collect.NoteTruncated, "the page has %d links, of which %d are looked at", l.anchors, maxAnchors)
	}
	if l.pages.Cut() > 0 {
		read.Notes.Add(collect.NoteTruncated, "the page links %d pages, of which %d are read", len(l.pages.Links)+
			l.pages.Cut(), maxLinks)
	}
	l.further(read)
	if l.scripted && l.next == nil && len(l.numbered)+len(l.months) == 0 {
		read.Notes.Add(collect.NoteLeftOut, "the listing names a next page that only a script shows: it was left out")
	}
	read.Links = links.Unique(append(read.Links, l.pages.Links...))
	if l.beyond > 0 {
		read.Notes.Add(collect.NoteLeftOut, "%d pages of days long gone or far ahead were left out", l.beyond)
	}
}

func (l *look) isList(u *url.URL) bool {
	list, _ := pageNumber(u)
	return slices.Contains(l.lists, list)
}

// further links the following pages of the listing, unless this one shows that nothing more is to come.
func (l *look) further(read *collect.Page) {
	shown := l.pages.Links
	if l.monthly() {
		shown = undated(shown)
	}
	then := position{page: l.at.page + 1, digest: digest(shown, read.Observations)}
	if then.digest == l.at.digest {
		then.stale = l.at.stale + 1
	}
	set := links.New(l.html.URL, nil, maxPages)
	if l.next != nil && l.isBeyond(l.next) {
		l.next = nil
		l.beyond++
	}
	if then.stale >= maxStale && (l.next != nil || len(l.numbered) > 0 || len(l.months) > 0) {
		read.Notes.Add(collect.NoteLeftOut, "page %d of the listing shows nothing new, as those before it: it is taken "+
			"for the last one", l.at.page)
		return
	}
	if l.next != nil {
		list, number := pageNumber(l.next)
		switch {
		case slices.Contains(l.lists, list) && number > 0:
			l.numbered = append([]numbered{{l.next, number}}, l.numbered...)
		case l.at.way != byNext: // a page that was found by its number does not begin another listing
		case l.unnamed && then.page > l.maxMonths(): // they are outside of the window
		case then.page > maxPages:
			read.Notes.Add(collect.NoteTruncated, "the listing has more than %d pages, the rest was left out", maxPages)
		default:
			then.way = byNext
			set.AddURL(l.next, collect.Link{Role: then.role(), List: true})
		}
	}
	l.followMonths(set, then)
	more := false
	for _, p := range l.numbered {
		if p.n > maxPages {
			more = true
			continue
		}
		at := position{
			way:    byNumber,
			page:   p.n,
			stale:  then.stale,
			digest: then.digest,
		}
		set.AddURL(p.url, collect.Link{Role: at.role(), List: true})
	}
	if more {
		read.Notes.Add(collect.NoteTruncated, "the listing has more than %d pages, the rest was left out", maxPages)
	}
	read.Links = append(read.Links, set.Links...)
}
