package calendar

import (
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/place"
	"carillon/command/collect/identity"
)

// usualOrigins is the number of origins of most events.
const usualOrigins = 10

// candidate returns the properties that all instances of a series share.
func (f *file) candidate(page *url.URL, s *series) *candidate.Candidate {
	c := &candidate.Candidate{
		Syntax:    collect.ICalendar,
		Holdings:  s.holdings,
		Recurring: s.recurring,
		Zone:      f.stated(s),
		Version:   max(sequence(s.master), 0),
		Origins:   make([]collect.Origin, 0, min(len(s.master.lines), usualOrigins)),
	}
	m := mapper{
		page:      page,
		event:     s.master,
		candidate: c,
		element:   "VEVENT[" + strconv.Itoa(s.master.number) + "]",
	}
	c.Title = markup.Plain(m.text(collect.FieldTitle, "SUMMARY"))
	if uid := m.text(collect.FieldIdentity, "UID"); uid != "" {
		c.IDs = []string{identity.IDKey(strings.ToLower(page.Hostname()) + "|uid|" + uid)}
	}
	m.description()
	m.links()
	m.where()
	m.organizer()
	m.images()
	m.published(f)
	for _, says := range origins {
		m.text(says.field, says.property)
	}
	if c.Zone != "" {
		m.zone()
	}
	for i := range c.Origins {
		c.Origins[i].Page = f.page
	}
	return c
}

// origins are the properties whose values are read elsewhere, with the fields that come from them.
var origins = []struct {
	property string
	field    collect.Field
}{
	{"DTSTART", collect.FieldStart}, {"DTEND", collect.FieldEnd}, {"DURATION", collect.FieldEnd},
	{"RRULE", collect.FieldRecurrence}, {"RDATE", collect.FieldRecurrence}, {"EXDATE", collect.FieldRecurrence},
	{"RECURRENCE-ID", collect.FieldRecurrence}, {"STATUS", collect.FieldStatus},
}

// stated returns the name of the zone of an event, or of its calendar if the event is in UTC.
func (f *file) stated(s *series) string {
	switch {
	case s.zone.floats:
		return ""
	case s.zone.utc:
		z, _ := f.hinted(s.master.calendar)
		return z.name
	}
	return s.zone.name
}

// mapper fills a candidate from an event.
type mapper struct {
	page      *url.URL
	event     *event
	candidate *candidate.Candidate
	// element names the event in the file.
	element string
}

// text returns the text of a property, and records it as the origin of a field.
func (m *mapper) text(field collect.Field, property string) string {
	l, ok := m.event.first(property)
	if !ok {
		return ""
	}
	return m.said(field, l, l.text())
}

func (m *mapper) said(field collect.Field, l line, text string) string {
	if text != "" {
		m.candidate.Says(field, "VEVENT."+l.name, m.element, text)
	}
	return text
}

// zone records the origin of the zone.
func (m *mapper) zone() {
	l, _ := m.event.first("DTSTART")
	if id := l.param("TZID"); id != "" {
		m.candidate.Says(collect.FieldTimezone, "VEVENT.DTSTART;TZID", m.element, id)
		return
	}
	path := "VTIMEZONE.TZID"
	switch cal := m.event.calendar; {
	case cal.timezone != "":
		path = "VCALENDAR.X-WR-TIMEZONE"
	case cal.timezoneID != "":
		path = "VCALENDAR.TIMEZONE-ID"
	}
	m.candidate.Says(collect.FieldTimezone, path, "VCALENDAR", m.candidate.Zone)
}

// description prefers the description in HTML.
func (m *mapper) description() {
	if l, ok := m.event.first("X-ALT-DESC"); ok && strings.Contains(strings.ToLower(l.param("FMTTYPE")), "html") {
		if m.candidate.Description = markup.HTML(l.text()); m.candidate.Description != "" {
			m.said(collect.FieldDescription, l, l.text())
			return
		}
	}
	m.candidate.Description = markup.HTML(m.text(collect.FieldDescription, "DESCRIPTION"))
}

// link returns an absolute URL of the web, nil for other texts.
func (m *mapper) link(text string) *url.URL {
	u, err := m.page.Parse(strings.TrimSpace(text))
	if err != nil || text == "" || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" ||
		strings.ContainsAny(text, " \n<>\"") {
		return nil
	}
	return u
}

func (m *mapper) shown(text string) string {
	if u := m.link(text); u != nil {
		return identity.Clean(u)
	}
	return ""
}

func (m *mapper) links() {
	if u := m.link(m.event.value("URL")); u != nil {
		m.text(collect.FieldURL, "URL")
		m.candidate.Addresses = []*url.URL{u}
	}
}

// where reads the place, coordinates and the online part.
func (m *mapper) where() {
	w := &m.candidate.Where
	if l, ok := m.event.first("LOCATION"); ok {
		text := m.said(collect.FieldLocation, l, l.text())
		if venue, address, ok := strings.Cut(text, "\n"); ok && strings.TrimSpace(address) != "" &&
			!candidate.IsOnlineWord(venue) {
			// A name followed by lines with its address.
			w.Venue = markup.Plain(venue)
			w.AddressText = markup.Plain(strings.ReplaceAll(strings.TrimSpace(address), "\n", ", "))
			w.Address = place.ParseAddress(w.AddressText)
		} else {
			w.Text(text, m.shown)
		}
	}
	if l, ok := m.event.first("GEO"); ok {
		lat, lng, _ := strings.Cut(l.value, ";")
		if w.Geo = place.Coordinates(lat, lng); w.Geo != nil {
			m.said(collect.FieldCoordinates, l, l.value)
		}
	}
	if l, ok := m.event.first("X-APPLE-STRUCTURED-LOCATION"); ok && w.Geo == nil {
		lat, lng, _ := strings.Cut(strings.TrimPrefix(strings.ToLower(l.value), "geo:"), ",")
		if w.Geo = place.Coordinates(lat, lng); w.Geo != nil {
			m.said(collect.FieldCoordinates, l, l.value)
		}
	}
	m.online(w)
}

// online reads the online part: a conference, or a link to a known platform.
func (m *mapper) online(w *candidate.Where) {
	for _, name := range []string{"CONFERENCE", "X-GOOGLE-CONFERENCE", "X-MICROSOFT-SKYPETEAMSMEETINGURL"} {
		for _, l := range m.event.lines {
			if l.name != name || w.Online != "" {
				continue
			}
			if link := m.shown(l.value); link != "" {
				w.IsOnline, w.Online = true, link
				m.said(collect.FieldOnline, l, l.value)
			}
		}
	}
	l, _ := m.event.first("URL")
	if u := m.link(strings.TrimSpace(l.value)); u != nil && !w.IsOnline &&
		slices.Contains(meetings, place.Platform(u.String())) {
		w.IsOnline, w.Online = true, identity.Clean(u)
		m.said(collect.FieldOnline, l, l.value)
	}
}

// meetings are the platforms whose links are rooms. On others, such as Facebook, a link may be just a page.
var meetings = []string{
	"Zoom", "Google Meet", "Microsoft Teams", "Webex", "GoToMeeting", "Skype", "Gather", "Livestorm", "Airmeet",
}

func (m *mapper) organizer() {
	l, ok := m.event.first("ORGANIZER")
	if !ok {
		return
	}
	o := happening.Organizer{Name: markup.Plain(l.param("CN"))}
	value := strings.TrimSpace(l.value)
	switch lower := strings.ToLower(value); {
	case strings.HasPrefix(lower, "mailto:"):
		o.Contact = markup.Plain(value[len("mailto:"):])
	case strings.HasPrefix(lower, "http"):
		o.URL = m.shown(value)
	}
	if strings.HasPrefix(strings.ToLower(o.Name), "mailto:") {
		o.Name = o.Name[len("mailto:"):]
	}
	if o.Name == "" {
		o.Name = o.Contact
	}
	if o.Name != "" {
		m.candidate.Organizer = &o
		m.said(collect.FieldOrganizer, l, o.Name)
	}
}

// pictures are the extensions of image files.
var pictures = map[string]bool{".jpg": true, ".jpeg": true, ".png": true, ".gif": true, ".webp": true, ".avif": true,
	".svg": true}

const maxImages = 20

func (m *mapper) images() {
	for _, l := range m.event.lines {
		if l.name != "IMAGE" && l.name != "ATTACH" || len(m.candidate.Images) == maxImages {
			continue
		}
		u := m.link(strings.TrimSpace(l.value))
		if u == nil || strings.EqualFold(l.param("VALUE"), "BINARY") {
			continue
		}
		kind := strings.ToLower(l.param("FMTTYPE"))
		if l.name == "ATTACH" && !strings.HasPrefix(kind, "image/") && (kind != "" ||
			!pictures[strings.ToLower(path.Ext(u.Path))]) {
			continue
		}
		m.candidate.Images = append(m.candidate.Images, identity.Clean(u))
		m.said(collect.FieldImage, l, l.value)
	}
}

func (m *mapper) published(f *file) {
	l, ok := m.event.first("CREATED")
	if !ok {
		return
	}
	if at, ok := f.parseMoment(m.event.calendar, l, l.value, nil); ok && at.hasTime && at.wall.Year() >= 1990 {
		t := at.instant().UTC()
		m.candidate.PublishedAt = &t
		m.said(collect.FieldPublished, l, l.value)
	}
}
