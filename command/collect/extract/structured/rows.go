package structured

import (
	"cmp"
	"iter"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/identity"
)

// row is an element of a list with its title, the link of that, and the text besides.
type row struct {
	node, title, link *html.Node
	name, text        string
	days              []time.Time // that may be an event's
}

// empty matches the labels of links that are no titles.
//
//nolint:misspell // words of other languages
var empty = regexp.MustCompile(`(?i)^\W*(?:(?:read|learn|see|view|show|click|find out|full|event|meeting|` +
	`more)\b.{0,12}\b(?:more|details?|info(?:rmation)?|event|here|page|description|agenda|minutes|packet|` +
	`video|calendar)|more|details?|info(?:rmation|s)?|here|link|website|agendas?|(?:final|draft|amended|` +
	`approved|summary|meeting|special)? ?(?:agenda|minutes)(?: packet)?|packet|notice|documents?|materials?|` +
	`attachments?|presentation|audio|watch.*|listen.*|recording.*|live(?: ?stream)?|` +
	`open .*|zoom.*|webex.*|join.*|map|directions?|register.*|registration.*|sign up.*|rsvp|(?:buy|get|` +
	`book)? ?tickets?|book(?: now)?|add to.*|download.*|pdf|share|i?cal(?:endar)?|google.*|outlook.*|edit|` +
	`cancell?ed|mehr.*|weiterlesen|weitere .*|zur veranstaltung|anmeld.*|karten|tickets .*|en savoir.*|` +
	`lire la suite|plus d.*|réserv.*|inscription.*|billetterie|más.*|leer más|ver más|entradas|scopri.*|` +
	`leggi.*|dettagli|prenota.*|lees meer|meer.*|läs mer|læs mere|les mer|saiba mais|詳細.*|もっと.*)\W*$`)

// endsInNotice matches more of them: apart, because it is searched for in the whole of each label.
var endsInNotice = regexp.MustCompile(`\bnotice\W*$`)

// emptyWords are the words of labels that name no event, whatever their number.
var emptyWords = map[string]bool{
	"agenda": true, "agendas": true, "minutes": true, "document": true, "documents": true, "accessible": true,
	"meeting": true, "meetings": true, "cancelled": true, "canceled": true, "rescheduled": true,
	"postponed": true, "amended": true, "posted": true, "updated": true, "draft": true, "final": true,
	"approved": true, "notice": true, "packet": true, "and": true, "summary": true, "recording": true,
	"time": true, "date": true, "location": true, "change": true, "event": true, "events": true, "upcoming": true,
	"schedule": true, "calendar": true, "veranstaltungen": true, "termine": true, "termin": true,
	"événements": true, "eventos": true, "eventi": true,
}

// isTitle reports whether words may be the title of an event: not only labels and numbers.
func isTitle(words string) (named bool) {
	lower := strings.ToLower(words)
	for word := range strings.FieldsFuncSeq(lower, func(r rune) bool { return !unicode.IsLetter(r) }) {
		if word == "pdf" {
			return false // a document
		}
		named = named || !emptyWords[word]
	}
	return named && !strings.Contains(lower, "video") && !endsInNotice.MatchString(lower) && !empty.MatchString(words)
}

// half matches the half of a day, or the like, which belongs to the time in the line before.
var half = regexp.MustCompile(`(?i)^(?:[ap]\.? ?m\.?|uhr|h)(?:\W|$)`)

// documents are the extensions of files.
var documents = strings.Fields(".pdf .doc .docx .xls .xlsx .ppt .pptx .odt .ics .jpg .jpeg .png .gif .webp .mp3 .mp4 " +
	".zip")

// titleHead matches the heading of the column of a table that has the titles.
var titleHead = regexp.MustCompile(`(?i)^\W*(?:(?:name of )?(?:the )?(?:event|meeting|title|name|what|class|` +
	`course|activity|show|performance|film|concert|board|committee|body)(?: ?/ ?\w+)?(?:s|es)?(?: (?:name|` +
	`title|type|description))?|veranstaltung|titel|bezeichnung|thema|was|événement|évènement|titre|quoi|` +
	`manifestation|evento|título|titolo|qué|cosa|evenement|wat|arrangement|evenemang|hvad|hva|vad)\W*$`)

// columns are the words in the head of a table, and the number of the column of titles, from 1; 0 if none is named so.
type columns struct {
	heads []string
	title int
}

// columns reads the first row of the table that a row is in.
func (m *mapper) columns(n *html.Node) (c columns) {
	if n.DataAtom != atom.Tr {
		return c
	}
	for n != nil && n.DataAtom != atom.Table {
		n = n.Parent
	}
	if n == nil {
		return c
	}
	for row := range n.Descendants() {
		if !m.budget.Work(1) {
			break
		}
		if row.DataAtom == atom.Tr {
			for cell := range cells(row) {
				words := m.shown(cell, maxDate)
				if c.title == 0 && titleHead.MatchString(words) {
					c.title = len(c.heads) + 1
				}
				if cell.DataAtom != atom.Th {
					words = ""
				}
				c.heads = append(c.heads, words)
			}
			break
		}
	}
	return c
}

// cells are those of a row of a table.
func cells(row *html.Node) iter.Seq[*html.Node] {
	return func(yield func(*html.Node) bool) {
		for c := range row.ChildNodes() {
			if (c.DataAtom == atom.Th || c.DataAtom == atom.Td) && !yield(c) {
				return
			}
		}
	}
}

// cell returns a cell of a row, counted from 1; nil if there is none.
func cell(row *html.Node, number int) *html.Node {
	for c := range cells(row) {
		if number--; number == 0 {
			return c
		}
	}
	return nil
}

// rowText returns the text of a row without its title, each cell behind the head of its column: some dates are those of
// deadlines.
func (m *mapper) rowText(n, title *html.Node, heads []string) string {
	var all []string
	i := 0
	for c := range cells(n) {
		text := m.besides(c, title)
		if i < len(heads) && heads[i] != "" && text != "" {
			text = heads[i] + ": " + text
		}
		all = append(all, text)
		i++
	}
	if i == 0 {
		return m.besides(n, title)
	}
	return strings.Join(all, "\n")
}

// row reads an element of a list; ok is false if it has no title.
func (m *mapper) row(n *html.Node, in columns) (r row, ok bool) {
	r = row{node: n, title: cmp.Or(cell(n, in.title), m.heading(n))}
	var first, more *html.Node
	href, several := "", false // of the titles that are links
	left := maxNear
	look := func(a *html.Node) {
		u := m.resolve(cut(attr(a, "href"), maxName))
		switch {
		case u == nil || slices.Contains(documents, strings.ToLower(path.Ext(u.Path))):
		case !isTitle(m.words(a)):
			more = cmp.Or(more, a)
		case first == nil:
			first, href = a, u.String()
		default:
			several = several || u.String() != href
		}
	}
	if n.DataAtom == atom.A {
		look(n)
	}
	for c := range n.Descendants() {
		if left--; left == 0 || !m.budget.Work(1) {
			return r, false
		}
		if c.DataAtom == atom.A && (first == nil || r.title == nil && !several || r.title != nil && more == nil) {
			look(c)
		}
	}
	r.link = cmp.Or(first, more)
	if r.title != nil && first != nil && !holds(r.title, first) && !holds(first, r.title) {
		if u := m.resolve(attr(first, "href")); !identity.SameSite(u, m.page.URL) { // such as those to share it
			r.link = more
		}
	}
	if r.title == nil {
		if r.title = first; first == nil || several {
			return r, false
		}
	}
	r.name = m.words(r.title)
	r.text = m.rowText(n, r.title, in.heads)
	return r, r.name != "" && strings.ContainsAny(r.name+r.text, "0123456789")
}

// besides returns the text of an element without another one in it.
func (g *graph) besides(n, without *html.Node) string {
	if n == without {
		return ""
	}
	var b strings.Builder
	g.show(&b, n, without, maxRow)
	var lines []string
	for line := range strings.SplitSeq(b.String(), "\n") {
		line = strings.Join(strings.Fields(line), " ")
		switch last := len(lines) - 1; {
		case line == "":
		case last >= 0 && strings.IndexByte("apuhAPUH", line[0]) >= 0 && half.MatchString(line):
			lines[last] += " " + line
		default:
			lines = append(lines, line)
		}
	}
	return strings.Join(lines, "\n")
}

// post returns a row as a post, with the text besides its title.
func (m *mapper) post(r row, text, about string) posts.Post {
	return posts.Post{
		Text:      r.name + "\n" + text,
		Field:     "text",
		CreatedAt: m.page.Window.Month(),
		Zone:      m.page.Timezone,
		About:     about,
	}
}

// texts yields the text of a row besides its title, and the same in one line if a line is the day of a date of several
// elements: "5", "5." or "15th".
func (r row) texts(yield func(string) bool) {
	if !yield(r.text) {
		return
	}
	for line := range strings.SplitSeq(r.text, "\n") {
		if len(line) <= len("15th") && strings.ContainsAny(line, "0123456789") {
			yield(strings.ReplaceAll(r.text, "\n", " "))
			return
		}
	}
}

// date sets the days of a row, and reports whether it has any dates.
func (m *mapper) date(r *row) (dated bool) {
	for text := range r.texts {
		days, more := posts.Days(m.budget, m.post(*r, text, ""))
		if r.days, dated = days, dated || more; len(days) > 0 {
			break
		}
	}
	return dated
}

// rowEvent returns the event of a row, nil if it has none; over reports a date that is no event's.
func (m *mapper) rowEvent(r row, about string) (c *candidate.Candidate, over bool) {
	var found []*candidate.Candidate
	var passed []posts.Passed
	for text := range r.texts {
		if found, passed = posts.Read(m.budget, m.post(r, text, about)); len(found)+len(passed) > 0 {
			break
		}
	}
	inTitle := func(p posts.Passed) bool { return strings.Contains(r.name, p.Words) }
	if len(found) != 1 || slices.ContainsFunc(passed, inTitle) { // such as the date of a post about another one
		return nil, len(passed) > 0
	}
	c = found[0]
	c.Syntax, c.Description, c.PublishedAt = collect.List, "", nil
	titled := false
	c.Origins = slices.DeleteFunc(c.Origins, func(o collect.Origin) bool {
		titled = titled || o.Field == collect.FieldTitle && o.Element == "line 1"
		return o.Field != collect.FieldStart && o.Field != collect.FieldLocation && o.Field != collect.FieldOnline
	})
	if !strings.ContainsAny(r.name, "0123456789") {
		c.Title = r.name
	}
	if !titled || len(c.Holdings) != 1 || !isTitle(c.Title) {
		return nil, true
	}
	for i := range c.Origins {
		c.Origins[i].Syntax, c.Origins[i].Element = collect.List, elementPath(r.node)
	}
	m.entry(c, r)
	return c, false
}

// says reports whether a row has the year of a day.
func (r row) says(day time.Time) bool {
	return strings.Contains(r.name+r.text, strconv.Itoa(day.Year()))
}

// entry sets the address of an event, and the origins of that and its title.
func (m *mapper) entry(c *candidate.Candidate, r row) {
	c.Says(collect.FieldTitle, r.title.Data, elementPath(r.title), c.Title)
	if r.link == nil {
		return
	}
	if u := m.resolve(attr(r.link, "href")); u != nil {
		c.Addresses = append(c.Addresses, u)
		c.Says(collect.FieldURL, "a.href", elementPath(r.link), u.String())
	}
}
