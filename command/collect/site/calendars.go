package site

import (
	"context"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/sync/semaphore"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/calendar"
	"carillon/command/collect/candidate"
	"carillon/command/collect/fetch"
	"carillon/command/collect/identity"
	"carillon/command/collect/timing"
)

// maxCalendars is how many calendars that a page links are read with it.
const maxCalendars = 5

// linkedCalendars finds the calendars that a page links: first those that it names as another form of itself, which may
// lie anywhere, then what is to be subscribed to, then files, both at the same site.
func linkedCalendars(root *html.Node, page candidate.Page) []string {
	var ranks [3][]string
	seen := map[string]bool{identity.Canonical(page.URL): true}
	var walk func(*html.Node)
	walk = func(n *html.Node) {
		if n.DataAtom == atom.Link || n.DataAtom == atom.A || n.DataAtom == atom.Area {
			if u, rank := calendarLink(n, page); u != nil && len(ranks[rank]) < maxCalendars && !seen[identity.Canonical(u)] {
				seen[identity.Canonical(u)] = true
				ranks[rank] = append(ranks[rank], u.String())
			}
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c)
		}
	}
	walk(root)
	all := slices.Concat(ranks[0], ranks[1], ranks[2])
	return all[:min(len(all), maxCalendars)]
}

// calendarLink is the calendar that an element links, nil for none, and its rank.
func calendarLink(n *html.Node, page candidate.Page) (*url.URL, int) {
	attributes := map[string]string{}
	for _, a := range n.Attr {
		attributes[a.Key] = strings.TrimSpace(a.Val)
	}
	href := attributes["href"]
	if href == "" {
		return nil, 0
	}
	u, err := page.Base.Parse(href)
	if err != nil {
		return nil, 0
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
		return u, 0
	case !identity.SameSite(u, page.URL):
		return nil, 0
	case subscribed:
		return u, 1
	case isCalendar || file:
		return u, 2
	}
	return nil, 0
}

// visit is one reading of a page.
type visit struct {
	pages       Pages
	source      collect.Source
	page        collect.Known
	look        Look
	window      timing.Window
	known, next state
	fetched     int
	// alone: it holds unfinished.
	alone bool
	// have holds what was read of calendars when they were asked for whether they changed, by address.
	have map[string]tellings
}

// tellings is what came of reading a page.
type tellings struct {
	told

	validators fetch.Validators
	err        error
}

// get gets the page or a calendar, and has it used while its body is at hand. A page that another one links is one of
// its site: it may not lead elsewhere.
func (v *visit) get(ctx context.Context, url string, known fetch.Validators, use func(page *fetch.Page)) (*fetch.Page,
	error) {
	page, err := v.pages.Do(ctx, fetch.Ask{
		URL:   url,
		Known: known,
		Stay:  !v.page.Root && url == v.page.Address,
		Use:   use,
	})
	if err == nil {
		v.fetched++
	}
	return page, err //nolint:wrapcheck // visit does
}

// read gets what changed, and reads all of it if anything did: what a page and a calendar tell of one event is one
// observation.
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

// largePage is how long a page is, in bytes, of which only one in this process may wait for its calendars: until they
// were asked for it is kept as it was read, which takes ten times as much. Another one is let go, and asked for again.
const largePage = 1 << 20

var unfinished = semaphore.NewWeighted(1)

// readUnless reads the page and its calendars, unless the page is as it is known.
func (v *visit) readUnless(ctx context.Context, known fetch.Validators) (same bool, read collect.Page, err error) {
	var (
		all     tellings
		weight  int64
		crowded bool
	)
	page, err := v.get(ctx, v.page.Address, known, func(page *fetch.Page) {
		weight = weightOf(page)
		all.told, all.err = guarded(ctx, page.URL, weight, func(b *budget.Budget) (told, error) {
			reader := readerOf(page)
			if v.page.Role == RoleFeed {
				reader = readFeed // by whatever type it is served
			}
			return readPage(b, reader, page, v.source, v.window)
		})
		switch {
		case all.err != nil:
		case len(all.calendars) == 0:
			read, all.err = v.finish(ctx, page.URL, weight, all.told)
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
		if err := v.addCalendar(ctx, &all.told, i, link); err != nil {
			return false, collect.Page{}, err
		}
	}
	read, err = v.finish(ctx, page.URL, weight, all.told)
	return false, read, err
}

// finish makes observations of what is told, and links.
func (v *visit) finish(ctx context.Context, url *url.URL, weight int64, t told) (collect.Page, error) {
	return guarded(ctx, url, weight, func(b *budget.Budget) (collect.Page, error) { return v.pageOf(b, t) })
}

func (v *visit) pageOf(b *budget.Budget, t told) (collect.Page, error) {
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

// calendarsNotModified asks for the calendars that the page linked.
func (v *visit) calendarsNotModified(ctx context.Context) (bool, error) {
	for i, known := range v.known.Calendars {
		if known == (fetch.Validators{}) {
			continue
		}
		var read tellings
		page, err := v.get(ctx, known.URL, known, func(page *fetch.Page) { read = v.tellingsOf(ctx, page) })
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

// addCalendar adds what a linked calendar tells. One that can't be had or read is noted.
func (v *visit) addCalendar(ctx context.Context, all *told, i int, link string) error {
	t, err := v.readCalendar(ctx, i, link)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case err != nil:
		v.next.Calendars[i] = fetch.Validators{URL: link}
		all.notes.Add(collect.NotePageFailed, "a calendar that the page links can't be read: %s", err)
		return nil
	}
	all.found = append(all.found, t.found...)
	all.notes = append(all.notes, t.notes...)
	all.page.Limit = t.page.Limit
	return nil
}

func (v *visit) readCalendar(ctx context.Context, i int, link string) (told, error) {
	read, ok := v.have[link]
	if !ok {
		if _, err := v.get(ctx, link, fetch.Validators{}, func(page *fetch.Page) {
			read = v.tellingsOf(ctx, page)
		}); err != nil {
			return told{}, err
		}
	}
	v.next.Calendars[i] = read.validators
	return read.told, read.err
}

func (v *visit) tellingsOf(ctx context.Context, page *fetch.Page) (t tellings) {
	t.validators = page.Validators
	t.told, t.err = guarded(ctx, page.URL, weightOf(page), func(b *budget.Budget) (told, error) {
		if page.MediaType != calendar.MediaType && !calendar.Is(string(page.Body[:min(len(page.Body), 100)])) {
			return told{}, fmt.Errorf("%w: it is no calendar", collect.ErrUnsupportedContent)
		}
		return readCalendar(b, page, v.source, v.window)
	})
	return t
}
