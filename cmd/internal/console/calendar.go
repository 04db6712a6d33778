package console

import (
	"net/url"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"golang.org/x/net/html"

	"carillon/cmd/internal/wire"
)

// month is a calendar month, in UTC. Events are on the days of their own zones.
type month struct {
	Name           string
	Previous, Next string // addresses of the adjacent months
	Weeks          [][]day
	// Left counts the items of these weeks that the calendar omits.
	Left        int
	from, until time.Time // of the month
	ends        time.Time // of the weeks, which begin with the first day of the first
}

// day is a field of a calendar.
type day struct {
	At      time.Time
	Outside bool // whether it belongs to an adjacent month
	Today   bool
	Entries []calendarEntry
	More    int // number of omitted entries
}

// calendarEntry is a date of an item.
type calendarEntry struct {
	Item shownItem
	Date shownDate
}

const maxDayEntries = 3

// readMonth parses a month such as 2026-11; empty means the current one.
func readMonth(typed string, now time.Time) (m month, err error) {
	m.from = time.Date(now.Year(), now.Month(), 1, 0, 0, 0, 0, time.UTC)
	if typed != "" {
		if m.from, err = time.Parse("2006-01", typed); err != nil || m.from.Year() < 1970 || m.from.Year() > 2200 {
			return m, wire.Fail(wire.BadQuery, "month", "must be a month, such as 2026-11")
		}
	}
	next := m.from.AddDate(0, 1, 0)
	m.until = next.Add(-time.Microsecond)
	m.Name = m.from.Format("January 2006")
	at := func(t time.Time) string { return "?" + url.Values{"month": {t.Format("2006-01")}}.Encode() }
	m.Previous, m.Next = at(m.from.AddDate(0, -1, 0)), at(next)
	first := m.from.AddDate(0, 0, -(int(m.from.Weekday())+6)%7) // Monday
	until := next
	if weekend := now.AddDate(0, 0, 14-(int(now.Weekday())+6)%7-1); typed == "" && weekend.After(next) {
		until = weekend // next weekend is on the first page
	}
	for d := first; d.Before(until); {
		week := make([]day, 0, 7)
		for range 7 {
			week = append(week, day{At: d, Outside: d.Month() != m.from.Month(), Today: d.Equal(now.Truncate(24 * time.Hour))})
			d = d.AddDate(0, 0, 1)
		}
		m.Weeks = append(m.Weeks, week)
	}
	m.ends = first.AddDate(0, 0, 7*len(m.Weeks)).Add(-time.Microsecond)
	return m, nil
}

// fill writes items into the calendar.
func (m *month) fill(items []shownItem, total int) {
	m.Left = max(0, total-len(items))
	first := m.Weeks[0][0].At
	for _, item := range items {
		for _, date := range item.Occurrence.InRange {
			n := daysBetween(first, item.Local(date.Start))
			if n < 0 || n/7 >= len(m.Weeks) {
				continue
			}
			d := &m.Weeks[n/7][n%7]
			if len(d.Entries) == maxDayEntries {
				d.More++
				continue
			}
			d.Entries = append(d.Entries, calendarEntry{item, date})
		}
	}
}

// daysBetween counts the days from one to another, by the calendar of each.
func daysBetween(from, to time.Time) int {
	day := func(at time.Time) time.Time { return time.Date(at.Year(), at.Month(), at.Day(), 0, 0, 0, 0, time.UTC) }
	return int(day(to).Sub(day(from)) / (24 * time.Hour))
}

// readItems parses a page of rendered items.
func readItems(page []byte) (all []shownItem, err error) {
	if err := json.Unmarshal(page, &all); err != nil {
		return nil, err
	}
	for i := range all {
		all[i].Description = plain(all[i].Description)
	}
	return all, nil
}

func readItem(body []byte) (item shownItem, err error) {
	err = json.Unmarshal(body, &item)
	item.Description = plain(item.Description)
	return item, err
}

// plain returns the text of a description without its tags, which are untrusted.
func plain(description string) string {
	var b strings.Builder
	for tokens := html.NewTokenizer(strings.NewReader(description)); ; {
		switch tokens.Next() {
		case html.ErrorToken:
			return strings.Join(strings.Fields(b.String()), " ")
		case html.TextToken:
			b.Write(tokens.Text())
		case html.StartTagToken, html.EndTagToken, html.SelfClosingTagToken:
			b.WriteByte(' ')
		case html.CommentToken, html.DoctypeToken: // no text
		}
	}
}

// host returns the host of an address, so that people see it before they follow a link, or "" if it is not a web
// address.
func host(address string) string {
	at, err := url.Parse(address)
	if err != nil || at.Scheme != "https" && at.Scheme != "http" {
		return ""
	}
	return at.Host
}

// zoneOf returns the zone of an event, and its name; UTC if it names none that is known.
func zoneOf(name string) (*time.Location, string) {
	if zone, err := time.LoadLocation(name); err == nil && name != "" && name != "Local" {
		return zone, name
	}
	return time.UTC, "UTC"
}

const (
	dateFormat  = "Mon 2 Jan 2006, 15:04"
	clockFormat = "15:04"
)

// eventSpan formats the times of an event in its own zone: "Sat 28 Nov 2026, 19:30 to 22:00, Europe/Rome".
func eventSpan(zone string, start time.Time, end *time.Time) string {
	at, name := zoneOf(zone)
	start = start.In(at)
	text := start.Format(dateFormat)
	if end != nil && !end.Equal(start) {
		format := clockFormat
		if until := end.In(at); until.Format(time.DateOnly) != start.Format(time.DateOnly) {
			format = dateFormat
		}
		text += " to " + end.In(at).Format(format)
	}
	return text + ", " + name
}

// Local returns a time of an item on the clock of its zone.
func (i shownItem) Local(at time.Time) time.Time {
	zone, _ := zoneOf(i.Time.Timezone)
	return at.In(zone)
}
