package structured

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/identity"
)

const (
	// minRows is the minimum number of alike elements of a list without markup.
	minRows = 3
	// maxListNodes, maxRows and maxRow limit the work for the lists of a page: nodes, rows, and bytes of a row.
	maxListNodes = 100_000
	maxRows      = 500
	maxRow       = 2000
	// maxRowDays is the maximum number of days in the row of an event: others are lists themselves.
	maxRowDays = 12
)

// rowElements are the elements that may be rows of a list.
var rowElements = map[atom.Atom]bool{
	atom.Li: true, atom.Tr: true, atom.Article: true, atom.Div: true, atom.Section: true, atom.P: true, atom.A: true,
}

// aroundText are the elements around the text of a page.
var aroundText = map[atom.Atom]bool{
	atom.Nav: true, atom.Footer: true, atom.Aside: true, atom.Head: true, atom.Script: true, atom.Style: true,
	atom.Template: true, atom.Noscript: true, atom.Select: true, atom.Svg: true,
}

// list is a group of alike elements with a common parent, and the heading before it.
type list struct {
	rows    []*html.Node
	heading *html.Node
}

// lists returns the events of lists and tables without any markup. Its evidence is the lowest.
func (m *mapper) lists() (found []*candidate.Candidate) {
	f := &listFinder{left: maxListNodes}
	f.walk(m.page.Root)
	left := maxRows
	taken := map[*html.Node]bool{}
	for _, l := range f.lists {
		if left == 0 || m.budget.Err() != nil {
			break
		}
		rows := len(l.rows)
		l.rows = l.rows[:min(rows, left)]
		left -= len(l.rows)
		if slices.ContainsFunc(l.rows, func(row *html.Node) bool { return taken[row] }) {
			continue // a list is in it
		}
		events := m.listed(l)
		if len(events) == 0 {
			continue
		}
		if len(l.rows) < rows {
			m.notes.Add(collect.NoteTruncated, "lists without markup are read up to %d rows; the rest is left out", maxRows)
		}
		found = append(found, events...)
		for at := l.rows[0].Parent; at != nil; at = at.Parent {
			taken[at] = true
		}
	}
	return found
}

// listFinder finds the lists of a page, the inner ones first.
type listFinder struct {
	left    int
	heading *html.Node
	lists   []list
}

// walk reports whether a node has a digit in its text.
func (f *listFinder) walk(n *html.Node) (digit bool) {
	f.left--
	switch {
	case f.left < 0:
		return false
	case n.Type == html.TextNode:
		return strings.ContainsAny(n.Data, "0123456789")
	case aroundText[n.DataAtom]:
		return false
	}
	before := f.heading
	if headings[n.DataAtom] {
		f.heading = n
	}
	var rows []*html.Node
	for c := n.FirstChild; c != nil; c = c.NextSibling {
		if !f.walk(c) {
			continue
		}
		digit = true
		if rowElements[c.DataAtom] {
			rows = append(rows, c)
		}
	}
	if len(rows) < minRows {
		return digit
	}
	alike := map[atom.Atom][]*html.Node{}
	for _, row := range rows {
		alike[row.DataAtom] = append(alike[row.DataAtom], row)
	}
	for _, kind := range slices.Sorted(maps.Keys(alike)) {
		if len(alike[kind]) >= minRows {
			f.lists = append(f.lists, list{alike[kind], before})
		}
	}
	return digit
}

// listed returns the events of a list whose rows have one date each: at least one ahead of the visit, and with dates
// without a year all in order, so that archives are none.
func (m *mapper) listed(l list) (found []*candidate.Candidate) {
	about := m.words(l.heading)
	if offSubject.MatchString(about) && !posts.IsList(about) {
		return nil
	}
	about = strings.Join(append([]string{about, m.pageTitle}, m.headings...), " ")
	in := m.columns(l.rows[0])
	title := ""
	dated, sure, years, rising := 0, false, true, true
	last := m.page.Window.Month()
	rows := m.datedRows(l, in)
	for i, r := range rows {
		if dated+len(rows)-i < minRows {
			return nil
		}
		if len(r.days) > maxRowDays {
			dated++
			continue
		}
		c, other := m.rowEvent(r, about)
		if c != nil || other {
			dated++
		}
		if c == nil {
			continue
		}
		start := c.Holdings[0].When.Start.Wall
		rising = rising && !start.Before(last)
		last = start
		years = years && r.says(start)
		if !years && !rising {
			return nil
		}
		sure = sure || m.isAhead(start)
		found = append(found, c)
		if title = r.title.Data; in.title > 0 {
			title = fmt.Sprintf("%s:nth-child(%d)", title, in.title)
		}
	}
	if dated < minRows || !sure || !years && 2*len(found) < dated {
		return nil
	}
	m.notes.Guessed(len(found), selectorOf(l.rows[0]), title)
	return m.ownPages(found)
}

// datedRows returns the rows of a list with dates, nil if these are too few or none is ahead of the visit. Most lists
// end here, before the words around their dates are read.
func (m *mapper) datedRows(l list, in columns) (rows []row) {
	ahead, yearly, many := false, false, 0
	for i, n := range l.rows {
		if len(rows)+len(l.rows)-i < minRows {
			return nil
		}
		r, ok := m.row(n, in)
		if !ok || !m.date(&r) {
			continue
		}
		rows = append(rows, r)
		if len(r.days) > maxRowDays {
			many++
			continue
		}
		for _, day := range r.days {
			ahead, yearly = ahead || m.isAhead(day), yearly || r.says(day)
		}
	}
	if !ahead || !yearly && 2*many > len(rows) {
		return nil
	}
	return rows
}

// isAhead reports whether a day is certainly ahead of the visit.
func (m *mapper) isAhead(day time.Time) bool {
	return !day.Before(m.page.Window.Month().AddDate(0, 1, 0))
}

// plainName matches names that selectors need not escape.
var plainName = regexp.MustCompile(`^[A-Za-z][\w-]*$`)

// selectorOf returns a selector of the rows of a list: from the next element with an id or a class above them.
func selectorOf(row *html.Node) string {
	text := row.Data
	for n, left := row.Parent, 2; n != nil && n.Type == html.ElementNode && left > 0; n, left = n.Parent, left-1 {
		class := strings.Fields(cut(attr(n, "class"), maxDate))
		switch id := attr(n, "id"); {
		case plainName.MatchString(cut(id, maxDate)):
			return "#" + cut(id, maxDate) + " > " + text
		case len(class) > 0 && plainName.MatchString(class[0]):
			return n.Data + "." + class[0] + " > " + text
		}
		text = n.Data + " > " + text
	}
	return text
}

// ownPages keeps the addresses that one event has: others are no pages of events.
func (m *mapper) ownPages(found []*candidate.Candidate) []*candidate.Candidate {
	shown := map[string]int{}
	for _, c := range found {
		for _, u := range c.Addresses {
			shown[u.String()]++
		}
	}
	for _, c := range found {
		if len(c.Addresses) > 0 && shown[c.Addresses[0].String()] > 1 {
			c.Links, c.Addresses = []string{identity.Clean(c.Addresses[0])}, nil
		}
	}
	return found
}

// offSubject matches the headings of lists of other things.
var offSubject = regexp.MustCompile(`(?i)\b(?:news|blog|press|archives?|jobs?|careers?|vacanc|tenders?|bids?|` +
	`members?|documents?)\b`)

// words returns the words of an element, "" for none.
func (m *mapper) words(n *html.Node) string {
	if n == nil {
		return ""
	}
	return m.line(m.shown(n, maxHeading))
}
