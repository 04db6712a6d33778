package site

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/sync/semaphore"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// maxCalendars limits the calendars that are read with a page that links them.
const maxCalendars = 5

// linked is a calendar that a page links. A guessed one may be none: only its words say so.
type linked struct {
	address string
	guessed bool
}

// ranks of links to calendars, the best first: alternate forms of the page and embedded calendars, which may be on any
// site; subscriptions, files and guesses on its own site.
const (
	rankAlternate = iota
	rankSubscription
	rankFile
	rankGuess
	ranks
)

// linkedCalendars returns the calendars that a page links, and whether there are more. inText excludes guesses around
// the text, which all pages of a site have.
func linkedCalendars(root *html.Node, page candidate.Page, inText bool) (all []linked, more bool) {
	var ranked [ranks][]linked
	seen := map[string]bool{identity.Canonical(page.URL): true}
	var walk func(n *html.Node, about bool)
	walk = func(n *html.Node, about bool) {
		switch n.DataAtom {
		case atom.Link, atom.A, atom.Area, atom.Iframe:
			u, rank := calendarLink(n, page)
			if u == nil || seen[identity.Canonical(u)] || rank == rankGuess && inText && about {
				break
			}
			if more = more || len(ranked[rank]) == maxCalendars; len(ranked[rank]) < maxCalendars {
				seen[identity.Canonical(u)] = true
				ranked[rank] = append(ranked[rank], linked{u.String(), rank == rankGuess})
			}
		default:
			about = about || links.IsAbout(n)
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, about)
		}
	}
	walk(root, false)
	all = slices.Concat(ranked[:]...)
	return all[:min(len(all), maxCalendars)], more || len(all) > maxCalendars
}

// calendarLink returns the calendar that an element links and its rank, nil for no calendar.
func calendarLink(n *html.Node, page candidate.Page) (*url.URL, int) {
	attributes := map[string]string{}
	for _, a := range n.Attr {
		attributes[a.Key] = strings.TrimSpace(a.Val)
	}
	href := attributes["href"]
	if n.DataAtom == atom.Iframe {
		href = cmp.Or(attributes["src"], attributes["data-src"])
	}
	if href == "" {
		return nil, 0
	}
	u, err := page.Base.Parse(href)
	if err != nil {
		return nil, 0
	}
	if google := googleCalendar(u); google != nil || n.DataAtom == atom.Iframe {
		return google, rankAlternate
	}
	subscribed := u.Scheme == "webcal" || u.Scheme == "webcals"
	if u = fetch.Web(u); u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, 0
	}
	u.Fragment, u.RawFragment = "", ""
	kind, _, _ := strings.Cut(strings.ToLower(attributes["type"]), ";")
	isCalendar := strings.TrimSpace(kind) == calendar.MediaType
	alternate := slices.Contains(strings.Fields(strings.ToLower(attributes["rel"])), "alternate")
	file := strings.EqualFold(path.Ext(u.Path), ".ics")
	switch {
	case alternate && (isCalendar || subscribed || file && kind == ""):
		return u, rankAlternate
	case !identity.SameSite(u, page.URL):
		return nil, 0
	case subscribed:
		return u, rankSubscription
	case isCalendar || file:
		return u, rankFile
	case n.DataAtom != atom.Link && !links.IsFile(u) && speaksOfCalendar(n, u, attributes["class"]):
		return u, rankGuess
	}
	return nil, 0
}

var (
	// calendarTerm matches names of calendar files in addresses and classes, as in "?format=ical", "icalDownload" and
	// "ics_view", but not "musical" and "physics".
	calendarTerm = regexp.MustCompile(`(?:^|[^A-Za-z])(?i:i-?cal|v-?cal|ics)(?i:endar)?s?(?i:export|feed|download|view` +
		`|event|file|link|url)?s?(?:[^a-z]|$)|[a-z]I[Cc](?:al|AL|S)(?:endar)?(?:[^a-z]|$)|[?&]M=IC(?:&|$)`)
	// calendarWords matches labels of links to calendar files.
	//
	//nolint:misspell // words of other languages
	calendarWords = regexp.MustCompile(`(?i)\b(?:i-?cal(?:endar)?|vcal(?:endar)?|ics|outlook)\b|\b(?:add|save|export|` +
		`download|subscribe) .{0,12}\bcalendar|\bkalender ?(?:eintragen|hinzufügen|speichern|export|datei|abonnieren|` +
		`importieren)|\btermin (?:speichern|exportieren|übernehmen|herunterladen)|(?:ajouter|exporter).{0,12} ` +
		`(?:calendrier|agenda)|(?:añadir|agregar|exportar).{0,6} calendario|(?:aggiungi|esporta).{0,5} calendario|` +
		`adicionar.{0,6} calendário|(?:toevoegen aan|zet in).{0,6} (?:agenda|kalender)|(?:tilføj til|legg til i|` +
		`lägg till i|føj til).{0,5} kalender|dodaj do kalendarza|přidat do kalendáře|в календарь|カレンダーに(?:追加|登録)`)
)

// maxCalendarWords limits the label of a link to a calendar. A longer one is the title of an article.
const maxCalendarWords = 80

// speaksOfCalendar reports whether the address, the class or the words of a link name a calendar file.
func speaksOfCalendar(n *html.Node, u *url.URL, class string) bool {
	if calendarTerm.MatchString(u.Path+"?"+u.RawQuery) || calendarTerm.MatchString(class) {
		return true
	}
	label := links.Label(n)
	return len(label) <= maxCalendarWords && calendarWords.MatchString(label)
}

// googleCalendar returns the calendar file of a public calendar that Google embeds or offers to add; nil for other
// addresses.
func googleCalendar(u *url.URL) *url.URL {
	host := strings.ToLower(u.Hostname())
	if host != "calendar.google.com" && (host != "www.google.com" && host != "google.com" ||
		!strings.HasPrefix(u.Path, "/calendar/")) {
		return nil
	}
	id := cmp.Or(u.Query().Get("src"), u.Query().Get("cid"))
	if decoded, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(id, "=")); err == nil &&
		utf8.Valid(decoded) && !strings.Contains(id, "@") {
		id = string(decoded)
	}
	if !strings.Contains(id, "@") || strings.ContainsAny(id, "/#") { // # marks calendars of holidays
		return nil
	}
	return &url.URL{
		Scheme:  "https",
		Host:    "calendar.google.com",
		Path:    "/calendar/ical/" + id + "/public/basic.ics",
		RawPath: "/calendar/ical/" + url.QueryEscape(id) + "/public/basic.ics",
	}
}

// visit reads a page once.
type visit struct {
	pages       Pages
	source      collect.Source
	page        collect.Known
	look        Look
	window      timing.Window
	known, next state
	fetched     int
	// alone marks a visit that holds unfinished.
	alone bool
	// have has the contents of calendars that were read during the check for changes, by address.
	have map[string]tellings
}

// tellings are the results of reading a page.
type tellings struct {
	content

	validators fetch.Validators
	err        error
}

// get fetches the page or a calendar, and calls use while its body is available. A linked page and a guessed calendar
// belong to their site: they must not redirect to another one.
func (v *visit) get(ctx context.Context, url string, known fetch.Validators, stay bool,
	use func(page *fetch.Page)) (*fetch.Page, error) {
	page, err := v.pages.Do(ctx, fetch.Ask{
		URL:   url,
		Known: known,
		Stay:  stay || !v.page.Root && url == v.page.Address,
		Use:   use,
	})
	if err == nil {
		v.fetched++
	}
	return page, err //nolint:wrapcheck // visit does
}

// read fetches what has changed, and reads everything if anything has: a page and a calendar with the same event lead
// to one observation.
func (v *visit) read(ctx context.Context) (collect.Page, error) {
	defer func() {
		if v.alone {
			unfinished.Release(1)
		}
	}()
	same, read, err := v.readUnless(ctx, v.known.Validators)
	if !same || err != nil {
		return read, err
	}
	if same, err = v.calendarsNotModified(ctx); err != nil {
		return collect.Page{}, err
	}
	if same {
		return collect.Page{Unchanged: true}, nil
	}
	_, read, err = v.readUnless(ctx, fetch.Validators{})
	return read, err
}

// largePage is the length in bytes of a page of which only one in this process may wait for its calendars. Its parsed
// form, which takes ten times as much memory, is kept for that time; other large pages are dropped and fetched again.
const largePage = 1 << 20

var unfinished = semaphore.NewWeighted(1)

// readUnless reads the page and its calendars, unless the page is unchanged.
func (v *visit) readUnless(ctx context.Context, known fetch.Validators) (same bool, read collect.Page, err error) {
	var (
		all     tellings
		weight  int64
		crowded bool
	)
	page, err := v.get(ctx, v.page.Address, known, false, func(page *fetch.Page) {
		weight = weightOf(page)
		all.content, all.err = guarded(ctx, page.URL, weight, func(b *budget.Budget) (content, error) {
			reader := readerOf(page)
			if v.page.Role == RoleFeed {
				reader = readFeed // whatever its media type
			}
			return readPage(b, reader, page, v.source, v.window)
		})
		switch {
		case all.err != nil:
		case len(all.calendars) == 0:
			read, all.err = v.finish(ctx, page.URL, weight, all.content)
		case len(page.Body) >= largePage && !v.alone:
			v.alone = unfinished.TryAcquire(1)
			if crowded = !v.alone; crowded {
				all = tellings{}
			}
		}
	})
	if err != nil {
		return false, collect.Page{}, err
	}
	if crowded {
		if err := unfinished.Acquire(ctx, 1); err != nil {
			return false, collect.Page{}, fmt.Errorf("wait for other large pages: %w", err)
		}
		v.alone = true
		return v.readUnless(ctx, fetch.Validators{})
	}
	v.next.Validators = page.Validators
	if page.NotModified || all.err != nil || len(all.calendars) == 0 {
		return page.NotModified, read, all.err
	}
	for i, link := range all.calendars {
		if err := v.addCalendar(ctx, &all.content, i, link); err != nil {
			return false, collect.Page{}, err
		}
	}
	read, err = v.finish(ctx, page.URL, weight, all.content)
	return false, read, err
}

// finish makes observations and links of the contents.
func (v *visit) finish(ctx context.Context, url *url.URL, weight int64, t content) (collect.Page, error) {
	return guarded(ctx, url, weight, func(b *budget.Budget) (collect.Page, error) { return v.pageOf(b, t) })
}

func (v *visit) pageOf(b *budget.Budget, t content) (collect.Page, error) {
	found, err := observe(b, t)
	if err != nil {
		return collect.Page{}, err
	}
	read := collect.Page{Observations: found.Observations, Notes: found.Notes}
	if t.feed != nil && v.page.Role != RolePage {
		read.Links = t.feed.Links
		t.feed.Note(&read.Notes)
	}
	if t.html != nil && v.look != nil {
		v.look(b, t.html, &read)
	}
	if err := b.Err(); err != nil {
		return collect.Page{}, fmt.Errorf("read page: %w", err)
	}
	return read, nil
}

// calendarsNotModified checks the calendars that the page linked for changes.
func (v *visit) calendarsNotModified(ctx context.Context) (bool, error) {
	for i, known := range v.known.Calendars {
		if known == (fetch.Validators{}) {
			continue
		}
		var read tellings
		page, err := v.get(ctx, known.URL, known, false, func(page *fetch.Page) { read = v.tellingsOf(ctx, page) })
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		if err != nil {
			return false, nil //nolint:nilerr // addCalendar asks again, and notes it
		}
		if !page.NotModified {
			v.have[known.URL] = read
			return false, nil
		}
		v.next.Calendars[i] = page.Validators
	}
	return true, nil
}

// addCalendar adds the events of a linked calendar. An unreadable one is noted.
func (v *visit) addCalendar(ctx context.Context, all *content, i int, link linked) error {
	t, err := v.readCalendar(ctx, i, link)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case link.guessed && isNone(err):
		v.next.Calendars[i] = fetch.Validators{}
		return nil
	case err != nil:
		v.next.Calendars[i] = fetch.Validators{URL: link.address}
		all.notes.Add(collect.NotePageFailed, "a calendar that the page links can't be read: %s", err)
		return nil
	}
	all.found = append(all.found, t.found...)
	all.notes = append(all.notes, t.notes...)
	all.page.Limit = t.page.Limit
	return nil
}

// isNone reports whether a guessed address belongs to no calendar for the public.
func isNone(err error) bool {
	return errors.Is(err, collect.ErrUnsupportedContent) || errors.Is(err, collect.ErrBadURL) || collect.Gone(err) ||
		isRefused(err) || errors.Is(err, collect.ErrRobotsDisallowed)
}

func (v *visit) readCalendar(ctx context.Context, i int, link linked) (content, error) {
	read, ok := v.have[link.address]
	if !ok {
		if _, err := v.get(ctx, link.address, fetch.Validators{}, link.guessed, func(page *fetch.Page) {
			read = v.tellingsOf(ctx, page)
		}); err != nil {
			return content{}, err
		}
	}
	v.next.Calendars[i] = read.validators
	return read.content, read.err
}

func (v *visit) tellingsOf(ctx context.Context, page *fetch.Page) (t tellings) {
	t.validators = page.Validators
	t.content, t.err = guarded(ctx, page.URL, weightOf(page), func(b *budget.Budget) (content, error) {
		if page.MediaType != calendar.MediaType && !calendar.Is(string(page.Body[:min(len(page.Body), 100)])) {
			return content{}, fmt.Errorf("%w: it is no calendar", collect.ErrUnsupportedContent)
		}
		return readCalendar(b, page, v.source, v.window)
	})
	return t
}
