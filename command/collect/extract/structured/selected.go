package structured

import (
	"cmp"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/selectors"
)

// selection has the compiled selectors of a source by their names.
type selection map[string]selectors.Selector

// selected returns the events that the selectors of the source name.
func (m *mapper) selected() (found []*candidate.Candidate) {
	s := selection{}
	named := m.page.Settings.Selectors
	for _, n := range named.Named() {
		if *n.Text == "" {
			continue
		}
		compiled, err := selectors.Compile(*n.Text)
		if err != nil {
			m.notes.Add(collect.NoteSkippedEvent, "the selector %q can't be used: %s", *n.Text, err)
			return nil
		}
		s[n.Name] = compiled
	}
	for _, n := range s["event"].All(m.budget, m.page.Root, maxEvents) {
		if c := m.selectedEvent(s, n); c != nil && m.budget.Memory(candidateBytes) {
			found = append(found, c)
		}
	}
	return m.ownPages(found)
}

// first returns the first element that a selector names within an event, nil if there is none.
func (s selection) first(m *mapper, name string, n *html.Node) *html.Node {
	if all := s[name].All(m.budget, n, 1); len(all) > 0 {
		return all[0]
	}
	return nil
}

// selectedEvent returns the event of an element, nil if it has no title or no date, which is noted.
func (m *mapper) selectedEvent(s selection, n *html.Node) *candidate.Candidate {
	r, _ := m.row(n, columns{})
	if title := s.first(m, "title", n); title != nil {
		r.title, r.name = title, m.words(title)
	}
	if link := s.first(m, "link", n); link != nil {
		r.link = linkIn(link)
	}
	if r.name == "" {
		m.notes.Add(collect.NoteSkippedEvent, "a selected event without a title was left out")
		return nil
	}
	c := &candidate.Candidate{Syntax: collect.Selected, Title: r.name}
	m.selectedDates(c, s, r)
	if at := s.first(m, "place", n); at != nil {
		c.Where.Text(m.words(at), m.link)
		c.Says(collect.FieldLocation, "place", elementPath(at), m.words(at))
	}
	m.entry(c, r)
	return c
}

// selectedDates reads the dates of an event: those of attributes for programs, else in the words of the page.
func (m *mapper) selectedDates(c *candidate.Candidate, s selection, r row) {
	start, end := s.first(m, "start", r.node), s.first(m, "end", r.node)
	at, text := cmp.Or(start, r.node), r.text
	if start != nil {
		text = m.words(start)
	}
	if stamp := m.stamp(coded(start)); stamp != nil {
		h := candidate.Holding{}
		h.When.Start, h.When.End = *stamp, m.stamp(coded(end))
		c.Holdings = []candidate.Holding{h}
		text = coded(start)
	} else {
		if end != nil {
			text += " – " + m.words(end)
		}
		found, _ := posts.Read(m.budget, posts.Post{
			Text:      r.name + "\n" + text,
			CreatedAt: m.page.Window.From,
			Zone:      m.page.Timezone,
			Certain:   true,
		})
		for _, post := range found {
			c.Holdings = append(c.Holdings, post.Holdings...)
		}
	}
	c.Says(collect.FieldStart, "start", elementPath(at), text)
	if end != nil {
		c.Says(collect.FieldEnd, "end", elementPath(end), cmp.Or(coded(end), m.words(end)))
	}
}

// coded returns the date of an element for programs, "" if it has none.
func coded(n *html.Node) string {
	if n == nil {
		return ""
	}
	return strings.TrimSpace(cmp.Or(attr(n, "datetime"), attr(n, "content")))
}

// linkIn returns an element if it is a link, else the first link in it. Optional.
func linkIn(n *html.Node) *html.Node {
	if n.DataAtom == atom.A {
		return n
	}
	for c := range n.Descendants() {
		if c.DataAtom == atom.A {
			return c
		}
	}
	return nil
}
