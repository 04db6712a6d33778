package structured

import (
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
)

var (
	// timeClass matches the class of an element with the time of an event, otherTime that of another time.
	timeClass = regexp.MustCompile(`(?i)(?:^|[_-])(?:times?|uhrzeit|hora|heure|orario|tijd)$|[a-z]Time$`)
	otherTime = regexp.MustCompile(`(?i)publi|post|entry|updat|modif|creat|read|open|door|einlass`)
	yearThere = regexp.MustCompile(`[12]\d{3}`)
)

// maxTimeText limits the text of an element with a time, in bytes, maxDates the texts of a page with a date.
const (
	maxTimeText = 120
	maxDates    = 500
)

// hours sets the time of a day whose markup has none, as the page shows it: in the element of the day, in one that is
// named after a time, or beside the same day in the text. Without elements of its own the event must be the page's only
// one.
func (m *mapper) hours(c *candidate.Candidate, it *item) {
	if len(c.Holdings) != 1 || len(it.values("eventSchedule")) > 0 {
		return
	}
	when := &c.Holdings[0].When
	if when.Start.HasTime || when.End != nil && !when.End.Wall.Equal(when.Start.Wall) || when.Length.Days > 1 {
		return
	}
	for _, v := range it.values("startDate") {
		if v.node != nil && m.timed(c, it, v.node) {
			return
		}
	}
	root := it.node
	if root == nil && m.sole {
		root = m.page.Root
	}
	if root != nil {
		m.timedWithin(c, it, root)
	}
}

// timedWithin sets the time from the descendants of an element, and reports whether one of them has it.
func (m *mapper) timedWithin(c *candidate.Candidate, it *item, n *html.Node) bool {
	for n := n.FirstChild; n != nil; n = n.NextSibling {
		if !m.budget.Work(2) {
			return false
		}
		switch {
		case n.Type == html.TextNode && len(n.Data) <= maxTimeText && m.dates < maxDates && yearThere.MatchString(n.Data):
			m.dates++
			if day := m.stamp(n.Data); day != nil && day.HasTime && m.timed(c, it, n.Parent) {
				return true
			}
			continue
		case n.Type != html.ElementNode:
			continue
		}
		switch n.DataAtom {
		case atom.Head, atom.Script, atom.Style, atom.Template, atom.Nav, atom.Footer, atom.Aside:
			continue
		default:
		}
		if m.isTime(n) && m.timed(c, it, n) || m.timedWithin(c, it, n) {
			return true
		}
	}
	return false
}

// isTime reports whether a class of an element says that it has the time of an event.
func (m *mapper) isTime(n *html.Node) bool {
	class := cut(attr(n, "class"), maxDate)
	return class != "" && m.budget.Work(len(class)/2) &&
		slices.ContainsFunc(strings.Fields(class), func(class string) bool {
			return timeClass.MatchString(class) && !otherTime.MatchString(class)
		})
}

// timed sets the time that an element shows, unless it is that of another day.
func (m *mapper) timed(c *candidate.Candidate, it *item, n *html.Node) bool {
	when := &c.Holdings[0].When
	text := m.shown(n, maxTimeText)
	start, end, ok := timing.ShownTimes(text)
	if day := m.stamp(text); !ok || day != nil && !timing.Midnight(day.Wall).Equal(when.Start.Wall) {
		return false
	}
	if start.Halved && (end == nil || end.Halved) && (m.language == "" || strings.HasPrefix(m.language, "en")) {
		return false // it may be of the evening
	}
	date := when.Start.Wall
	*when = timing.Range{Start: timing.Stamp{Wall: date.Add(start.Clock), HasTime: true}}
	c.Says(collect.FieldStart, it.path()+".startDate", elementPath(n), text)
	if end != nil {
		when.End = &timing.Stamp{Wall: date.Add(end.Clock), HasTime: true}
		c.Says(collect.FieldEnd, it.path()+".startDate", elementPath(n), text)
	}
	return true
}
