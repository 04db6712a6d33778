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
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// maxCalendars limits the calendars that are read with a page that links them.
const maxCalendars = 5

// linkedCalendars returns the calendars that a page links: first its alternate forms, which may be on any site, then
// subscriptions, then files, both on the same site.
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

// calendarLink returns the calendar that an element links and its rank, nil for no calendar.
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

// get fetches the page or a calendar, and calls use while its body is available. A linked page belongs to its site: it
// must not redirect to another one.
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
	page, err := v.get(ctx, v.page.Address, known, func(page *fetch.Page) {
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

// addCalendar adds the events of a linked calendar. An unreadable one is noted.
func (v *visit) addCalendar(ctx context.Context, all *content, i int, link string) error {
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

func (v *visit) readCalendar(ctx context.Context, i int, link string) (content, error) {
	read, ok := v.have[link]
	if !ok {
		if _, err := v.get(ctx, link, fetch.Validators{}, func(page *fetch.Page) {
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
