package structured

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/extract/timing"
)

// bare adds an event of a syntax without terms for events.
func (g *graph) bare(syntax collect.Syntax, n *html.Node, props map[string]string) {
	it := g.add("", nil, "")
	it.types, it.syntax, it.node = []string{"Event"}, syntax, n
	for _, prop := range slices.Sorted(maps.Keys(props)) {
		it.set(prop, value{text: props[prop]})
	}
}

// addLinks are the addresses that add an event to a calendar, with the names of their parameters.
var addLinks = []struct {
	address                              *regexp.Regexp
	title, start, end, place, text, zone string
}{
	{
		address: regexp.MustCompile(
			`^(?:www\.)?(?:calendar\.)?google\.[a-z.]+/(?:calendar/)?(?:u/\d/)?(?:r/)?(?:render|event)`),
		title: "text",
		start: "dates",
		place: "location",
		text:  "details",
		zone:  "ctz",
	},
	{
		address: regexp.MustCompile(`^outlook\.(?:live|office|office365)\.com/(?:calendar|owa)/`),
		title:   "subject",
		start:   "startdt",
		end:     "enddt",
		place:   "location",
		text:    "body",
	},
	{
		address: regexp.MustCompile(`^calendar\.yahoo\.com/`),
		title:   "title",
		start:   "st",
		end:     "et",
		place:   "in_loc",
		text:    "desc",
	},
}

// readCalendarLinks adds the events of links that add them to a calendar.
func readCalendarLinks(g *graph) {
	for _, n := range g.calendarLinks {
		u := g.resolve(cut(attr(n, "href"), maxName))
		if u == nil || !g.budget.Work(100) {
			continue
		}
		for _, link := range addLinks {
			query, start := u.Query(), ""
			if link.address.MatchString(strings.ToLower(u.Host) + u.Path) {
				start = query.Get(link.start)
			}
			if start == "" {
				continue
			}
			start, end, _ := strings.Cut(start, "/")
			g.bare(collect.CalendarLink, n, map[string]string{
				"name":        query.Get(link.title),
				"startDate":   start,
				"endDate":     lastDay(start, cmp.Or(end, query.Get(link.end))),
				"location":    query.Get(link.place),
				"description": query.Get(link.text),
				"timezone":    query.Get(link.zone),
			})
			break
		}
	}
}

// lastDay returns the end of a link to a calendar. A date is that of the day after.
func lastDay(start, end string) string {
	day, err := timing.Parse(end, false)
	if err != nil || day.HasTime || end == start {
		return end
	}
	return day.Wall.AddDate(0, 0, -1).Format("2006-01-02")
}

// ahead reports whether a date is in the current month or later, and whether it is certainly ahead of the visit.
func (d *document) ahead(text string) (current, certain bool) {
	s, err := timing.Parse(cut(text, maxDate), d.monthFirst)
	if err != nil {
		return false, false
	}
	month := d.page.Window.Month()
	return !s.Wall.Before(month) && s.Wall.Before(d.page.Window.To), !s.Wall.Before(month.AddDate(0, 1, 0))
}

// appTerms are the names that programs give to the terms of schema.org.
var appTerms = map[string]string{
	"title": "name", "start_date": "startDate", "end_date": "endDate", "startsAt": "startDate", "endsAt": "endDate",
	"startDateTime": "startDate", "endDateTime": "endDate", "venue": "location", "place": "location",
	"city": "addressLocality", "street": "streetAddress", "country": "addressCountry", "timezone": "timezone",
}

// eventKey matches a name of an object, or of a list of them, that speaks of events.
var eventKey = regexp.MustCompile(`(?i)event|concert|gig|performance|programme|screening|exhibition`)

// maxAppData limits the data of a page that are read, in bytes of memory, maxAppEvents the events in them: no page is
// lost for its data.
const (
	maxAppData   = 8 << 20
	maxAppEvents = 500
)

// readAppData adds the objects with a name and a start in data that a page has for its scripts, if a place or a name
// says that they are events. Campaigns and jobs have a start too.
func readAppData(g *graph) {
	for _, block := range g.appData {
		size := jsonBytes(block.text)
		if size > maxAppData || !g.budget.Memory(size) || !g.budget.Work(len(block.text)/8) {
			return
		}
		values, clean, ok := decodeJSON(block.text)
		if !ok || !clean {
			continue
		}
		r := &ldReader{graph: g, block: block.number, aliases: appTerms}
		for _, v := range values {
			r.appData(v, false)
		}
	}
}

// appData looks for events in a value; named reports that the names around it speak of them.
func (r *ldReader) appData(v any, named bool) {
	switch v := v.(type) {
	case []any:
		if !r.graph.budget.Work(len(v)) {
			return
		}
		for _, e := range v {
			r.appData(e, named)
		}
	case map[string]any:
		if !r.graph.budget.Work(10 + 5*len(v)) {
			return
		}
		kind, _ := v["__typename"].(string)
		named = named || eventKey.MatchString(cut(kind, maxDate))
		if len(r.graph.items) > maxAppEvents {
			return
		}
		if r.isAppEvent(v, named) {
			it := r.object(v, nil, "")[0].item
			it.types, it.syntax = []string{"Event"}, collect.AppData
			for _, t := range r.graph.things(it, "location") {
				if len(t.props["address"]) == 0 {
					t.set("address", value{item: t})
				}
			}
			return
		}
		for _, key := range slices.Sorted(maps.Keys(v)) {
			r.appData(v[key], named || eventKey.MatchString(cut(key, maxDate)))
		}
	}
}

func (r *ldReader) isAppEvent(o map[string]any, named bool) bool {
	name, start, place := false, false, false
	for key, v := range o {
		text, isText := v.(string)
		switch r.term(key) {
		case "name":
			name = isText && strings.TrimSpace(text) != ""
		case "startDate":
			current, _ := r.graph.ahead(text)
			start = start || current
		case "location":
			place = v != nil && v != ""
		}
	}
	return name && start && (place || named)
}

// passed matches classes of the dates of posts.
var passed = regexp.MustCompile(`(?i)publi|updat|modif|entry-date|post|posted|created|comment|byline|meta-date`)

// entry is an entry of a list with the times in it.
type entry struct {
	node  *html.Node
	times []*html.Node
}

// readTimes adds the entries of lists with a time element each: two or more alike, of which one is ahead of the visit
// and no more than half are over. Their titles are headings or links.
func readTimes(g *graph) {
	lists := map[*html.Node][]*entry{}
	var order []*html.Node
	for _, n := range g.times {
		within := entryOf(n)
		if !g.budget.Work(50) || within == nil || passed.MatchString(cut(attr(n, "class")+attr(n, "itemprop"), maxDate)) ||
			hasAttr(n, "pubdate") {
			continue
		}
		list := lists[within.Parent]
		if list == nil {
			order = append(order, within.Parent)
		}
		if len(list) == 0 || list[len(list)-1].node != within {
			list = append(list, &entry{node: within})
		}
		last := list[len(list)-1]
		last.times = append(last.times, n)
		lists[within.Parent] = list
	}
	for _, parent := range order {
		var all []*entry
		sure := false
		for _, e := range lists[parent] {
			current, certain := g.ahead(attr(e.times[0], "datetime"))
			if sure = sure || certain; current {
				all = append(all, e)
			}
		}
		if n := len(lists[parent]); n < 2 || !sure || 2*len(all) < n {
			continue
		}
		for _, e := range all {
			g.timeEntry(e)
		}
	}
}

// entryOf returns the entry of a list that an element is in, nil for other elements and those around the text.
func entryOf(n *html.Node) (within *html.Node) {
	for at := n.Parent; at != nil; at = at.Parent {
		switch at.DataAtom {
		case atom.Li, atom.Article:
			if within == nil {
				within = at
			}
		case atom.Nav, atom.Footer, atom.Aside:
			return nil
		default:
		}
	}
	return within
}

// timeEntry adds an entry as an event.
func (g *graph) timeEntry(e *entry) {
	title, link := g.heading(e.node), (*html.Node)(nil)
	left := maxNear
	for n := range e.node.Descendants() {
		if left--; left == 0 || !g.budget.Work(1) {
			break
		}
		if n.DataAtom == atom.A && attr(n, "href") != "" && strings.TrimSpace(textOf(n, maxHeading)) != "" {
			if link == nil {
				link = n
			}
			if title == nil || holds(title, n) || holds(n, title) {
				link = n
				break
			}
		}
	}
	if title = cmp.Or(title, link); title == nil {
		return
	}
	props := map[string]string{"name": g.shown(title, maxHeading), "startDate": attr(e.times[0], "datetime")}
	if len(e.times) == 2 {
		props["endDate"] = attr(e.times[1], "datetime")
	}
	if link != nil {
		props["url"] = attr(link, "href")
	}
	g.bare(collect.TimeElement, e.node, props)
}

// ParseLinkedData returns a document of JSON-LD as the page that has it in a script.
func ParseLinkedData(text string) *html.Node {
	root := &html.Node{Type: html.DocumentNode}
	script := &html.Node{
		Type:     html.ElementNode,
		DataAtom: atom.Script,
		Data:     "script",
		Attr:     []html.Attribute{{Key: "type", Val: "application/ld+json"}},
	}
	script.AppendChild(&html.Node{Type: html.TextNode, Data: text})
	root.AppendChild(script)
	return root
}
