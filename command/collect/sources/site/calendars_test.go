package site_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/sources/site"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const feed = "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:1\r\nSUMMARY:Jazz night\r\n" +
	"DTSTART;TZID=Europe/Copenhagen:20261205T200000\r\n" +
	"DTEND;TZID=Europe/Copenhagen:20261205T233000\r\nDESCRIPTION:Caf\xc3\r\n \xa9 open\r\nEND:VEVENT\r\n" +
	"BEGIN:VEVENT\r\nUID:2\r\nSUMMARY:Quiz\r\nDTSTART;TZID=Europe/Copenhagen:20261201T190000\r\n" +
	"RRULE:FREQ=WEEKLY;COUNT=3\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"

func titles(result collect.Page) string {
	all := make([]string, 0, len(result.Observations))
	for _, o := range result.Observations {
		all = append(all, fmt.Sprintf("%s %d", o.Details.Title, len(o.Details.Instances)))
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

// A calendar is recognized by its type or its beginning.
func TestCalendarOfAnyType(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ contentType, body string }{
		{"text/calendar; charset=utf-8", feed}, {"text/calendar", feed}, {"text/plain", feed}, {"application/octet-stream",
			"\ufeff\r\n" + feed},
		{"text/html", feed}, {"", feed}, {"application/pdf", strings.ToLower(feed[:15]) + feed[15:]},
	} {
		t.Run(tt.contentType, func(t *testing.T) {
			t.Parallel()
			s := serve(t, page(tt.contentType, tt.body))
			result := s.collect(t, nil)
			if got := titles(result); got != "Jazz night 1, Quiz 3" || len(result.Notes) != 0 || result.Requests != 1 {
				t.Fatalf("got %s, %+v", got, result.Notes)
			}
			assert.Equal(t, result.Observations[0].Details.Description, "Café open", "description")
			assert.True(t, s.collect(t, result.State).Unchanged, "the calendar is read again though it has not changed")
			// Endless repetitions move with the months, even in an unchanged calendar.
			s.now = s.now.AddDate(0, 3, 0)
			if again := s.collect(t, result.State); again.Unchanged || titles(again) != "" ||
				again.Notes[0].Code != collect.NoteNoEvents {
				t.Errorf("three months later: %s, %+v", titles(again), again.Notes)
			}
		})
	}
}

func TestWebcal(t *testing.T) {
	t.Parallel()
	s := serve(t, page("text/calendar", feed))
	s.source.URL = strings.Replace(s.source.URL, "http:", "webcal:", 1)
	result := s.collect(t, nil)
	if got := titles(result); got != "Jazz night 1, Quiz 3" || !strings.HasSuffix(s.source.URL,
		strings.TrimPrefix(result.Observations[0].Source.URL, "http")+"events") {
		t.Errorf("got %s from %s", got, result.Observations[0].Source.URL)
	}
	s.source.URL = strings.Replace(s.source.URL, "webcal:", "webcals:", 1)
	assert.Is(t, assert.Err(s.read(t.Context(), nil)), collect.ErrConnection, "webcals: without TLS")
}

// linking serves a page that links calendars, and counts requests.
type linking struct {
	mu    sync.Mutex
	page  string
	files map[string]string // "" for a failure
	asked []string
}

func (l *linking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, r.URL.Path)
	body, ok := l.files[r.URL.Path]
	if r.URL.Path == "/events" {
		body, ok = l.page, true
	}
	tag := fmt.Sprintf(`"%d-%x"`, len(body), body[:min(8, len(body))])
	switch {
	case !ok:
		http.NotFound(w, r)
	case body == "":
		w.WriteHeader(http.StatusInternalServerError)
	case r.Header.Get("If-None-Match") == tag:
		w.WriteHeader(http.StatusNotModified)
	default:
		w.Header().Set("Etag", tag)
		if strings.HasSuffix(r.URL.Path, ".ics") {
			w.Header().Set("Content-Type", "text/calendar")
		} else {
			w.Header().Set("Content-Type", "text/html")
		}
		_, _ = io.WriteString(w, body)
	}
}

func (l *linking) change(f func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = nil
	f()
}

func (l *linking) seen() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.asked, " ")
}

func TestLinkedCalendars(t *testing.T) {
	t.Parallel()
	l := &linking{
		page: `<html><head><link rel="alternate" type="text/calendar" href="/feed.ics?ical=1"></head><body><h1>Programme</h1>
			<script type="application/ld+json">{"@type":"Event","name":"Jazz night","url":"/e/jazz",` +
			`"startDate":"2026-12-05T20:00","location":{"@type":"Place","name":"Kajhallen"}}</script>
			<a href="/other.pdf">PDF</a></body></html>`,
		files: map[string]string{"/feed.ics": feed},
	}
	s := serve(t, l.ServeHTTP)
	first := s.collect(t, nil)
	if got := titles(first); got != "Jazz night 1, Quiz 3" || first.Requests != 2 || len(first.Notes) != 0 {
		t.Fatalf("got %s of %d pages, %+v", got, first.Requests, first.Notes)
	}
	// The page's and the calendar's version of one event are combined: the place from the page, the end and the
	// description from the calendar.
	i := slices.IndexFunc(first.Observations, func(o collect.Observation) bool { return o.Details.Title == "Jazz night" })
	jazz := first.Observations[i]
	d := jazz.Details
	assert.True(t, d.Location != nil && d.Location.Venue.Name == "Kajhallen" && d.Description == "Café open" &&
		d.Instances[0].Occurrences[0].End != nil, "jazz is %+v", d)
	if !slices.ContainsFunc(jazz.Origins, func(o collect.Origin) bool {
		return o.Field == collect.FieldDescription && o.Syntax == collect.ICalendar && strings.HasSuffix(o.Page,
			"/feed.ics?ical=1")
	}) {
		t.Errorf("the description's origin is missing: %+v", jazz.Origins)
	}

	l.change(func() {})
	if second := s.collect(t, first.State); !second.Unchanged || l.seen() != "/events /feed.ics" {
		t.Errorf("nothing changed: %+v, asked for %s", second, l.seen())
	}
	l.change(func() { l.files["/feed.ics"] = strings.Replace(feed, "Quiz", "Pub quiz", 1) })
	third := s.collect(t, first.State)
	if got := titles(third); got != "Jazz night 1, Pub quiz 3" || l.seen() != "/events /feed.ics /events" {
		t.Errorf("the calendar changed: %s, asked for %s", got, l.seen())
	}
	l.change(func() { l.files["/feed.ics"] = "" })
	failed := s.collect(t, third.State)
	if got := titles(failed); got != "Jazz night 1" || len(failed.Notes) != 1 ||
		failed.Notes[0].Code != collect.NotePageFailed {
		t.Errorf("the calendar fails: %s, %+v", got, failed.Notes)
	}
	l.change(func() { l.files["/feed.ics"] = feed })
	if back := s.collect(t, failed.State); titles(back) != "Jazz night 1, Quiz 3" {
		t.Errorf("the calendar is back: %s, %+v", titles(back), back.Notes)
	}
	l.change(func() { l.files["/feed.ics"] = "<html>Sign in" })
	if none := s.collect(t, nil); titles(none) != "Jazz night 1" {
		t.Errorf("a page in the place of the calendar: %s, %+v", titles(none), none.Notes)
	}
}

func TestLinkedCalendars_selection(t *testing.T) {
	t.Parallel()
	other := &linking{files: map[string]string{"/named.ics": feed, "/unnamed.ics": feed}}
	elsewhere := serve(t, other.ServeHTTP)
	_, port, _ := strings.Cut(strings.TrimPrefix(elsewhere.source.URL, "http://"), ":")
	host := "http://localhost:" + strings.TrimSuffix(port, "/events") // another site than 127.0.0.1
	calendar := func(title string) string { return strings.Replace(feed, "Jazz night", title, 1) }
	l := &linking{files: map[string]string{}}
	for i := range 9 {
		l.files[fmt.Sprintf("/%d.ics", i)] = calendar(fmt.Sprint("Night ", i))
	}
	s := serve(t, l.ServeHTTP)
	here := strings.TrimSuffix(strings.TrimPrefix(s.source.URL, "http:"), "/events")
	l.page = `<html><body><a href="/0.ics">1</a><a href="0.ics#x">1 again</a><a href="` + host +
		`/unnamed.ics">not ours</a>
		<a href="webcal:` + here + `/1.ics">2</a><a rel="alternate" type="text/calendar" href="` + host +
		`/named.ics">named</a>
		<a href="mailto:a@b.example">x</a><a href="webcal://user:secret@` + here[2:] +
		`/2.ics">no</a><a href="/download?f=2.ics">no file</a>
		<a href="/3.ics">3</a><a href="/4.ics">4</a><a href="/5.ics">5</a><a href="/6.ics">6</a></body></html>`
	result := s.collect(t, nil)
	assert.True(t, result.Requests == 6 && result.Notes.Has(collect.NoteLeftOut),
		"%d pages, %+v", result.Requests, result.Notes)
	assert.Equal(t, l.seen(), "/events /1.ics /0.ics /3.ics /4.ics", "asked for … here")
	assert.Equal(t, other.seen(), "/named.ics", "asked for … elsewhere")
	assert.True(t, len(result.State) <= 4<<10, "the state has %d bytes", len(result.State))
	for path := range l.files {
		l.files[path] = ""
	}
	// Validators that are too long are omitted.
	l.change(func() {
		l.page = strings.ReplaceAll(l.page, ".ics", ".ics?"+strings.Repeat("x", 900))
		for i := range 9 {
			l.files[fmt.Sprintf("/%d.ics", i)] = feed
		}
	})
	long := s.collect(t, nil)
	assert.True(t, len(long.State) <= 4<<10, "the state has %d bytes", len(long.State))
}

// Words, class or address of a link speak of a calendar, and the answer proves it.
func TestGuessedCalendars(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		`<a class="btn ical-export" href="/out?id=7">Save</a>`:               "/events /out",
		`<a href="/out?method=ical&amp;id=7">+ Outlook</a>`:                  "/events /out",
		`<a href="/out?format=ical">Download</a>`:                            "/events /out",
		`<a href="/out/ics_view">x</a>`:                                      "/events /out/ics_view",
		`<a href="/out/icalDownload/7">x</a>`:                                "/events /out/icalDownload/7",
		`<a href="/View.ashx?M=IC&amp;ID=7"><img alt="" src="x.gif"></a>`:    "/events /View.ashx",
		`<a href="/out"><img alt="Export to iCalendar" src="x.gif"></a>`:     "/events /out",
		`<a href="/out">In Kalender eintragen</a>`:                           "/events /out",
		`<a href="/out" title="Ajouter à mon agenda">+</a>`:                  "/events /out",
		`<a href="/out">Add to your calendar</a>`:                            "/events /out",
		`<a href="/musical">A musical</a><a href="/physics">Physics now</a>`: "/events",
		`<a href="/out">Ten reasons to add a shared calendar to the plans of your team, of all teams, and more</a>`://
		"/events",
		`<a href="https://elsewhere.example/?ical=1">iCal</a>`: "/events",
		`<a href="#ical" class="ical">iCal</a>`:                "/events",
	} {
		l := &linking{page: "<html><body><h1>Swing</h1>" + link, files: map[string]string{}}
		for _, path := range []string{"/out", "/out/ics_view", "/out/icalDownload/7", "/View.ashx"} {
			l.files[path] = feed
		}
		s := serve(t, l.ServeHTTP)
		got := titles(s.collect(t, nil))
		asked := l.seen()
		assert.True(t, asked == want && (got != "") == (asked != "/events"), "%s: asked for %s, shows %s", link, asked, got)
		l.change(func() { clear(l.files) })
		none := s.collect(t, nil)
		assert.True(t, !none.Notes.Has(collect.NotePageFailed), "%s: a page instead of it failed: %v", link, none.Notes)
	}
}

// A page that another one links is not searched for the calendar of the whole site, nor if it shows its event.
func TestGuessedCalendars_linkedPage(t *testing.T) {
	t.Parallel()
	const all, own = `<footer><a href="/all?ical=1">iCal</a></footer>`, `<a class="ics" href="/own">iCal</a>`
	for body, want := range map[string]string{all + own: "/events /own", calendar + own: "/events", all: "/events"} {
		l := &linking{page: body, files: map[string]string{"/all": feed, "/own": feed}}
		s := serve(t, l.ServeHTTP)
		address := s.source.URL
		s.source.URL, s.source.Type = strings.TrimSuffix(address, "/events"), "siteIndexPage"
		link := collect.Link{Address: address, Role: site.RolePage}
		if _, err := s.collector.Read(t.Context(), s.source, collect.Known{Link: link}); err != nil || l.seen() != want {
			t.Errorf("%.40s: asked for %s, %v", body, l.seen(), err)
		}
	}
}

// slowCalendars serves large pages, each with a link to a calendar that takes a second, and counts the waiting pages.
type slowCalendars struct {
	mu           sync.Mutex
	pages        int
	inside, most int
}

func (s *slowCalendars) RoundTrip(r *http.Request) (*http.Response, error) {
	answer := &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"text/html"}},
		ContentLength: -1}
	body := ""
	s.mu.Lock()
	defer s.mu.Unlock()
	switch r.URL.Path {
	case "/programme":
		s.pages++
		body = `<link rel="alternate" type="text/calendar" href="/all.ics">` +
			ld(`{"@type":"Event","name":"Opera","startDate":"2026-12-05"}`) + strings.Repeat("x", 2<<20)
	case "/all.ics":
		s.inside++
		s.most = max(s.most, s.inside)
		s.mu.Unlock()
		<-time.After(time.Second) // in synctest time
		s.mu.Lock()
		s.inside--
		body = feed
	}
	answer.Body = io.NopCloser(strings.NewReader(body))
	return answer, nil
}

// One large page at a time waits for its calendars, because its contents are kept meanwhile.
func TestLargePagesWaitOneByOne(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &slowCalendars{}
		fetcher := must.Get(fetch.New(fetch.Options{Transport: s, Interval: -1}))(t)
		collector := site.New(fetcher, func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) })
		var visits sync.WaitGroup
		for i := range 5 {
			visits.Go(func() {
				source := collect.Source{Type: site.Type, URL: fmt.Sprintf("https://%d.example/programme", i),
					Timezone: "Europe/Copenhagen"}
				result, err := collector.Read(t.Context(), source, collect.Known{Link: collector.Start(source)[0], Root: true})
				if got := titles(result); err != nil || got != "Jazz night 1, Opera 1, Quiz 3" || len(result.Notes) != 0 {
					t.Errorf("got %s, %+v, %v", got, result.Notes, err)
				}
			})
		}
		visits.Wait()
		assert.True(t, s.most == 1 && s.pages <= 10,
			"%d pages waited at one time; pages were asked for %d times", s.most, s.pages)
	})
}
