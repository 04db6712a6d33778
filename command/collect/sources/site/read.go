package site

import (
	"context"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/sync/semaphore"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/extract/calendar"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/structured"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// content is the content of a page before it is combined with others.
type content struct {
	page  candidate.Page
	found []*candidate.Candidate
	notes collect.Notes
	// calendars are the linked ones; empty is the reason for the absence of events, if there is one.
	calendars []linked
	empty     collect.Note
	// html is the page, nil for another media type; feed has the listed pages if it is a feed.
	html *HTML
	feed *links.Set
}

// reader reads a page of one media type.
type reader func(b *budget.Budget, page *fetch.Page, source collect.Source, window timing.Window) (content, error)

// readers has a reader for each media type. A missing type mostly means HTML.
var readers = map[string]reader{
	"text/html":             readHTML,
	"application/xhtml+xml": readHTML,
	"":                      readHTML,
	"application/ld+json":   readLinkedData,
	calendar.MediaType:      readCalendar,
	"application/rss+xml":   readFeed,
	"application/atom+xml":  readFeed,
	"application/rdf+xml":   readFeed,
	"application/xml":       readFeed,
	"text/xml":              readFeed,
}

// readerOf returns the reader of a page. Calendars are served with any type.
func readerOf(page *fetch.Page) reader {
	if calendar.Is(string(page.Body[:min(len(page.Body), 100)])) {
		return readCalendar
	}
	if read, ok := readers[page.MediaType]; ok {
		return read
	}
	return func(*budget.Budget, *fetch.Page, collect.Source, timing.Window) (content, error) {
		return content{}, fmt.Errorf("%w: %.60q", collect.ErrUnsupportedContent, page.MediaType)
	}
}

// Read returns the events of a page, by its media type, with endless repetitions within the window. Source of the
// observations is not set, except for the URL of a calendar's. All collectors of pages use it.
//
// It fails with [collect.ErrTooComplex] if the page exceeds the budget, and with [collect.ErrPanicked] if a reader
// panics: foreign input must not end the process.
func Read(ctx context.Context, page *fetch.Page, source collect.Source, window timing.Window) (candidate.Result,
	error) {
	return guarded(ctx, page.URL, weightOf(page), func(b *budget.Budget) (candidate.Result, error) {
		t, err := readPage(b, readerOf(page), page, source, window)
		if err != nil {
			return candidate.Result{}, err
		}
		return observe(b, t)
	})
}

// maxReading limits the bytes of pages that are read concurrently in this process. Each page counts for more than its
// length. Reading uses processors and memory and does not wait, so more concurrency would only be slower.
const (
	maxReading = 24 << 20
	minWeight  = 1 << 20
)

var inProgress = semaphore.NewWeighted(maxReading)

func weightOf(page *fetch.Page) int64 { return min(int64(len(page.Body))+minWeight, maxReading) }

// guarded reads a page within limits.
func guarded[T any](ctx context.Context, place *url.URL, weight int64, read func(*budget.Budget) (T, error)) (result T,
	err error) {
	if err := inProgress.Acquire(ctx, weight); err != nil {
		return result, fmt.Errorf("wait to read page: %w", err)
	}
	defer inProgress.Release(weight)
	err = collect.Survive(place, func() (err error) {
		result, err = read(budget.New(ctx))
		return err
	})
	return result, err //nolint:wrapcheck // it is the reader's own
}

func readPage(b *budget.Budget, read reader, page *fetch.Page, source collect.Source, window timing.Window) (content,
	error) {
	t, err := read(b, page, source, window)
	if err == nil {
		err = b.Err()
	}
	if err != nil {
		return content{}, fmt.Errorf("read page: %w", err)
	}
	return t, nil
}

// observe makes observations of the contents.
func observe(b *budget.Budget, t content) (candidate.Result, error) {
	result := candidate.Observe(b, t.page, t.found, t.notes)
	if err := b.Err(); err != nil {
		return candidate.Result{}, fmt.Errorf("read page: %w", err)
	}
	if t.page.Many { // of a calendar only its site is visible
		site := url.URL{Scheme: t.page.URL.Scheme, Host: t.page.URL.Host, Path: "/"}
		for i := range result.Observations {
			result.Observations[i].Source.URL = site.String()
		}
	}
	if len(result.Observations) == 0 && t.empty.Code != "" {
		result.Notes.Add(t.empty.Code, "%s", t.empty.Text)
	}
	return result, nil
}

func readHTML(b *budget.Budget, page *fetch.Page, source collect.Source, window timing.Window) (content, error) {
	text, err := page.Text()
	if err != nil {
		return content{}, err //nolint:wrapcheck // readPage does
	}
	root, err := structured.Parse(b, text)
	if err != nil {
		return content{}, err //nolint:wrapcheck // readPage does
	}
	return readRoot(b, root, page, source, window)
}

// readLinkedData reads a document of JSON-LD.
func readLinkedData(b *budget.Budget, page *fetch.Page, source collect.Source, window timing.Window) (content, error) {
	text, err := page.Text()
	if err != nil {
		return content{}, err //nolint:wrapcheck // readPage does
	}
	return readRoot(b, structured.ParseLinkedData(text), page, source, window)
}

func readRoot(
	b *budget.Budget, root *html.Node, page *fetch.Page, source collect.Source, window timing.Window,
) (content, error) {
	t := content{empty: collect.Note{Code: collect.NoteNoEvents,
		Text: "the page holds no dated event in its structured data, and no list of events"}}
	t.page, t.found, t.notes = structured.Candidates(b, structured.Page{
		URL:      page.URL,
		Root:     root,
		Timezone: source.Timezone,
		Window:   window,
		Versions: versionsIn(page.Header["Link"]),
		Settings: source.Settings,
	})
	if address, err := url.Parse(source.URL); err == nil {
		t.page.Source, t.page.Home = identity.SamePage(page.URL, address), address
		if source.Type != Type { // the address of a single page is the source's
			t.page.Listing = address
		}
	}
	t.linkCalendars(root, source)
	t.html = &HTML{URL: t.page.URL, Base: t.page.Base, Root: root}
	for _, c := range t.found {
		t.html.Shown = append(t.html.Shown, c.Addresses...)
	}
	if needsJavaScript(root) {
		t.empty = collect.Note{Code: collect.NoteNeedsJavaScript,
			Text: "the page is empty until its scripts have run, which a collector doesn't do"}
	}
	return t, nil
}

var (
	versionLink = regexp.MustCompile(`<([^<>]*)>((?:\s*;[^,;<]*)*)`)
	hreflang    = regexp.MustCompile(`(?i);\s*hreflang="?([\w-]+)`)
)

// maxHeader limits how much of a header is read, in bytes.
const maxHeader = 16 << 10

// versionsIn returns the versions of a page in other languages that its Link headers name.
func versionsIn(headers []string) (all [][2]string) {
	for _, header := range headers {
		for _, link := range versionLink.FindAllStringSubmatch(header[:min(len(header), maxHeader)], -1) {
			if language := hreflang.FindStringSubmatch(link[2]); language != nil {
				all = append(all, [2]string{language[1], link[1]})
			}
		}
	}
	return all
}

// linkCalendars sets the calendars that the page links. Those that only may be calendars are for pages that need them:
// the source's own, unless all of its links are followed, and those that show no event.
func (t *content) linkCalendars(root *html.Node, source collect.Source) {
	own := source.Type == Type && t.page.Source
	all, more := linkedCalendars(root, t.page, !own)
	t.calendars = slices.DeleteFunc(all, func(l linked) bool {
		return l.guessed && !own && (t.page.Source || candidate.HasMarkup(t.found))
	})
	if more && own {
		t.notes.Add(collect.NoteLeftOut, "the page links more than %d calendars, of which the first are read: a source "+
			"of type siteIndexPage reads all", maxCalendars)
	}
}

func readCalendar(b *budget.Budget, page *fetch.Page, source collect.Source, window timing.Window) (content, error) {
	unfolded := *page
	unfolded.Body = calendar.Unfold(page.Body)
	text, err := unfolded.Text()
	if err != nil {
		return content{}, err //nolint:wrapcheck // readPage does
	}
	t := content{empty: collect.Note{Code: collect.NoteNoEvents, Text: "the calendar holds no event from now on"}}
	t.page, t.found, t.notes = calendar.Candidates(b, calendar.Page{
		URL:      page.URL,
		Text:     text,
		Timezone: source.Timezone,
		Window:   window,
	})
	t.page.Beside = besideCalendar(page.URL)
	return t, nil
}

// asCalendar matches the parameters by which a page is asked for as a calendar.
var asCalendar = regexp.MustCompile(`(?i)^(?:[\w-]*=)?[\w-]*\b(?:i-?cal|ics|vcal)(?:endar)?(?:=[\w-]*)?$`)

// besideCalendar returns the page of which a calendar is another form, nil for other calendars.
func besideCalendar(u *url.URL) *url.URL {
	pairs := strings.Split(u.RawQuery, "&")
	left := slices.DeleteFunc(slices.Clone(pairs), asCalendar.MatchString)
	if len(left) == len(pairs) || strings.Trim(u.Path, "/") == "" && len(left) == 0 {
		return nil
	}
	page := *u
	page.RawQuery = strings.Join(left, "&")
	return &page
}

// emptyText is the minimum length of text on a page with contents.
const emptyText = 200

// needsJavaScript reports whether a page consists of nearly nothing but scripts.
func needsJavaScript(root *html.Node) bool {
	scripts, text := 0, 0
	var walk func(n *html.Node, inBody bool)
	walk = func(n *html.Node, inBody bool) {
		switch {
		case text >= emptyText:
			return
		case n.Type == html.TextNode && inBody:
			for _, word := range strings.Fields(n.Data) {
				text += len(word) + 1
			}
			return
		}
		switch n.DataAtom {
		case atom.Script:
			for _, a := range n.Attr {
				if a.Key == "src" || a.Key == "type" && a.Val == "module" {
					scripts++
					break
				}
			}
			return
		case atom.Style, atom.Noscript, atom.Template:
			return
		case atom.Body:
			inBody = true
		default:
		}
		for c := n.FirstChild; c != nil; c = c.NextSibling {
			walk(c, inBody)
		}
	}
	walk(root, false)
	return scripts > 0 && text < emptyText
}
