// Package site collects from one page: a calendar, a programme, the page of a single event.
//
//	fetch, unless unchanged ──▶ read by media type ──▶ observations
//
// The calendars that a page links belong to it: a page and its calendar with the same event lead to one observation.
// The feeds that it links lead to further pages only, because the date of a post is not that of an event.
//
// An unchanged page is read again when the window of endless repetitions moves, which is once a month.
package site

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"time"

	"golang.org/x/net/html"

	"carillon/aggregates/happening"
	settings "carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// Type is the source type that this package serves.
const Type = "site"

// Pages fetches pages; [fetch.Fetcher] implements it.
type Pages interface {
	Do(ctx context.Context, ask fetch.Ask) (*fetch.Page, error)
}

// Collector is the collector of type site.
type Collector struct {
	pages  Pages
	window func() timing.Window
}

var _ collect.Collector = (*Collector)(nil)

// New returns a Collector. It expands endless repetitions within the window around now.
func New(pages Pages, now func() time.Time) *Collector {
	return &Collector{pages: pages, window: func() timing.Window { return timing.WindowAt(now()) }}
}

// Within returns a Collector with a fixed window, so that a page always leads to the same events.
func Within(pages Pages, window timing.Window) *Collector {
	return &Collector{pages: pages, window: func() timing.Window { return window }}
}

// reading is the version of the readers of pages. A higher one reads unchanged pages again.
const reading = 7

// Roles of pages besides the first one of a walk.
const (
	// RolePage is the role of a page with events only.
	RolePage = "page"
	// RoleFeed is the role of a feed, which lists pages.
	RoleFeed = "feed"
)

// state is the content of collect.State. All but the validators are conditions for their use.
type state struct {
	Reading    int               `json:"reading"`
	URL        string            `json:"url"`
	Role       string            `json:"role,omitempty"`
	Timezone   string            `json:"timezone,omitempty"`
	Settings   settings.Settings `json:"settings,omitzero"`
	Window     string            `json:"window"`
	Validators fetch.Validators  `json:"validators"`
	// Calendars are the linked ones, in order.
	Calendars [maxCalendars]fetch.Validators `json:"calendars,omitzero"`
}

// Window returns the current window of endless repetitions.
func (c *Collector) Window() timing.Window { return c.window() }

// Start implements collect.Collector.
func (*Collector) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.URL, List: true}}
}

// Look examines a page besides its events. It adds links and notes to the page.
type Look func(b *budget.Budget, html *HTML, page *collect.Page)

// HTML is the page that is being read.
type HTML struct {
	// URL is its address, Base the base of its references.
	URL, Base *url.URL
	Root      *html.Node
	// Shown are the addresses of its events.
	Shown []*url.URL
}

// Read fetches and reads the page and the calendars that it links.
func (c *Collector) Read(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	switch {
	case page.Role == RolePage:
		return c.Linked(ctx, source, page)
	case page.Role == RoleFeed:
		return c.feed(ctx, source, page)
	case page.Root:
		return c.Look(ctx, source, page, Feeds)
	default:
		return c.Look(ctx, source, page, nil)
	}
}

// Linked reads a page that another one links. A page of another site has no events, which is not a failure. A page
// that robots.txt or a login protects keeps its known events.
func (c *Collector) Linked(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	read, err := c.visit(ctx, source, page, nil)
	switch {
	case errors.Is(err, collect.ErrUnsupportedContent):
		return collect.Page{State: read.State, Requests: read.Requests}, nil
	case errors.Is(err, collect.ErrBadURL): // it has no events any more
		elsewhere := collect.Page{State: read.State, Requests: read.Requests}
		elsewhere.Notes.Add(collect.NoteLeftOut, "%s was left out: it redirects to another site or to no address of the web",
			page.Address)
		return elsewhere, nil
	case errors.Is(err, collect.ErrRobotsDisallowed) && !errors.Is(err, collect.ErrHTTPStatus):
		return passed(page, "robots.txt disallows %s", page.Address), nil
	case isRefused(err):
		return passed(page, "%s is not for us: %s", page.Address, err), nil
	case err != nil:
		return collect.Page{}, err
	}
	read.Notes = slices.DeleteFunc(read.Notes, func(n collect.Note) bool { return n.Code == collect.NoteNoEvents })
	return read, nil
}

// isRefused reports whether a page exists but is protected.
func isRefused(err error) bool {
	var status *collect.StatusError
	return errors.As(err, &status) && status.Code >= 400 && status.Code < 500 && !collect.Gone(err) &&
		!collect.Stops(err) &&
		!errors.Is(err, collect.ErrRobotsDisallowed)
}

// passed returns a skipped page, whose known events stay.
func passed(page collect.Known, why string, args ...any) collect.Page {
	passed := collect.Page{Unchanged: true, State: page.State}
	passed.Notes.Add(collect.NoteLeftOut, why, args...)
	return passed
}

// feed reads a feed. It only finds pages, so that an unreadable one is not a failure.
func (c *Collector) feed(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	read, err := c.visit(ctx, source, page, nil)
	switch {
	case ctx.Err() != nil:
		return collect.Page{}, context.Cause(ctx)
	case err == nil:
		return read, nil
	case collect.Stops(err), collect.Gone(err), errors.Is(err, collect.ErrPanicked):
		return collect.Page{}, err
	}
	return passed(page, "a feed can't be read: %s", err), nil
}

// Look reads a page and calls look with it. look is optional.
func (c *Collector) Look(ctx context.Context, source collect.Source, page collect.Known, look Look) (collect.Page,
	error) {
	read, err := c.visit(ctx, source, page, look)
	if err != nil {
		return collect.Page{}, err
	}
	return read, nil
}

// visit reads a page. It returns the state to store even on failure.
func (c *Collector) visit(ctx context.Context, source collect.Source, page collect.Known, look Look) (collect.Page,
	error) {
	window := c.window()
	next := state{
		Reading:  reading,
		URL:      page.Address,
		Role:     page.Role,
		Timezone: source.Timezone,
		Settings: source.Settings,
		Window:   window.Key(),
	}
	v := &visit{
		pages:  c.pages,
		source: source,
		page:   page,
		look:   look,
		window: window,
		known:  next.known(page.State),
		have:   map[string]tellings{},
	}
	read, failed := v.read(ctx)
	next.Validators, next.Calendars = v.next.Validators, v.next.Calendars
	var err error
	if read.State, err = next.encode(); err != nil {
		return collect.Page{}, fmt.Errorf("collect %s: encode state: %w", source.Type, err)
	}
	read.Requests = v.fetched
	if failed != nil {
		return read, fmt.Errorf("collect %s: %w", source.Type, failed)
	}
	shown := ""
	if address, err := url.Parse(source.URL); err == nil {
		shown = identity.Public(address)
	}
	for i := range read.Observations {
		seen := &read.Observations[i].Source
		*seen = happening.Block{Type: source.Type, URL: cmp.Or(seen.URL, shown)}
	}
	return read, nil
}

// known returns the last state if its conditions are the same. An unreadable state has none.
func (s state) known(from collect.State) state {
	var last state
	if json.Unmarshal(from, &last) != nil {
		return state{}
	}
	conditions := last
	conditions.Validators, conditions.Calendars = fetch.Validators{}, [maxCalendars]fetch.Validators{}
	if conditions != s {
		return state{}
	}
	return last
}

// encode returns the state to store. If it is too long, it omits the validators.
func (s state) encode() (collect.State, error) {
	data, err := json.Marshal(s)
	if err != nil || len(data) <= collect.MaxState {
		return data, err //nolint:wrapcheck // the caller says what it is
	}
	s.Validators, s.Calendars = fetch.Validators{}, [maxCalendars]fetch.Validators{}
	return json.Marshal(s) //nolint:wrapcheck // as above
}
