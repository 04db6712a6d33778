// Package site collects from one page: a calendar, a programme, the page of a
// single event.
//
//	fetch, unless unchanged ──▶ read by media type ──▶ observations
//
// A page that hasn't changed is still read anew when the window moves within
// which endless repetitions are expanded, which is once a month.
package site

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"runtime/debug"
	"strings"
	"time"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/sync/semaphore"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/candidate"
	"carillon/command/collect/fetch"
	"carillon/command/collect/structured"
	"carillon/command/collect/timing"
)

// Type is the source type that this package serves.
const Type = "site"

// Pages gets pages; [fetch.Fetcher] does.
type Pages interface {
	Get(ctx context.Context, url string, known fetch.Validators) (*fetch.Page, error)
}

// Collector is the collector of type site.
type Collector struct {
	pages Pages
	now   func() time.Time
}

var _ collect.Collector = (*Collector)(nil)

// New makes a Collector.
func New(pages Pages, now func() time.Time) *Collector {
	return &Collector{pages: pages, now: now}
}

// reading is the version of how pages are read. A higher one makes pages be
// read again that haven't changed.
const reading = 1

// cursor is what collect.Cursor holds. All but the validators say under which
// conditions these may be used.
type cursor struct {
	Reading    int              `json:"reading"`
	URL        string           `json:"url"`
	Timezone   string           `json:"timezone,omitempty"`
	Window     string           `json:"window"`
	Validators fetch.Validators `json:"validators"`
}

// Collect gets the page and reads it.
func (c *Collector) Collect(ctx context.Context, source collect.Source, from collect.Cursor) (collect.Result, error) {
	now := c.now()
	next := cursor{Reading: reading, URL: source.URL, Timezone: source.Timezone, Window: timing.WindowAt(now).Key()}
	page, err := c.pages.Get(ctx, source.URL, next.known(from))
	if err != nil {
		return collect.Result{}, fmt.Errorf("collect site: %w", err)
	}
	next.Validators = page.Validators
	result := collect.Result{Pages: 1, NotModified: page.NotModified}
	if result.Cursor, err = json.Marshal(next); err != nil {
		return collect.Result{}, fmt.Errorf("collect site: encode cursor: %w", err)
	}
	if page.NotModified {
		return result, nil
	}
	found, err := Read(ctx, page, source, now)
	if err != nil {
		return collect.Result{}, fmt.Errorf("collect site: %w", err)
	}
	result.Observations, result.Notes = found.Observations, found.Notes
	for i := range result.Observations {
		result.Observations[i].Source = collect.SourceBlock{Type: Type, URL: source.URL}
	}
	return result, nil
}

// known gives the validators of the last cursor, if it was made under the same
// conditions. A cursor that can't be read is of none.
func (c cursor) known(from collect.Cursor) fetch.Validators {
	var last cursor
	if json.Unmarshal(from, &last) != nil {
		return fetch.Validators{}
	}
	validators := last.Validators
	last.Validators = fetch.Validators{}
	if last != c {
		return fetch.Validators{}
	}
	return validators
}

// reader reads a page of one media type.
type reader func(b *budget.Budget, page *fetch.Page, source collect.Source, now time.Time) (candidate.Result, error)

// readers holds a reader for each media type that is read. Servers that state
// none mostly mean HTML.
var readers = map[string]reader{
	"text/html":             readHTML,
	"application/xhtml+xml": readHTML,
	"":                      readHTML,
}

// Read gives what a page shows, by its media type; Source of the observations
// is not set. It is for all collectors whose way ends at pages.
//
// It fails with [collect.ErrTooComplex] where the page asks for more than reading one may cost, and with a
// [collect.PanicError] where a reader panics: what a stranger wrote must not end the process.
func Read(ctx context.Context, page *fetch.Page, source collect.Source, now time.Time) (result candidate.Result, err error) {
	read, ok := readers[page.MediaType]
	if !ok {
		return candidate.Result{}, fmt.Errorf("%w: %.60q", collect.ErrUnsupportedContent, page.MediaType)
	}
	defer func() {
		if p := recover(); p != nil {
			place := (&url.URL{Scheme: page.URL.Scheme, Host: page.URL.Host, Path: page.URL.Path}).String()
			result, err = candidate.Result{}, &collect.PanicError{Place: place, Value: p, Stack: debug.Stack()}
		}
	}()
	// Reading takes processors and memory, not time to wait: more at once would only be slower.
	weight := min(int64(len(page.Body))+leastWeight, mostUnderWay)
	if err := underWay.Acquire(ctx, weight); err != nil {
		return candidate.Result{}, fmt.Errorf("wait to read page: %w", err)
	}
	defer underWay.Release(weight)
	return read(budget.New(ctx), page, source, now)
}

// mostUnderWay bounds the bytes of pages that are read at one time in this process, each of which counts for some more
// than it is long.
const (
	mostUnderWay = 24 << 20
	leastWeight  = 1 << 20
)

var underWay = semaphore.NewWeighted(mostUnderWay)

func readHTML(b *budget.Budget, page *fetch.Page, source collect.Source, now time.Time) (candidate.Result, error) {
	text, err := page.Text()
	if err != nil {
		return candidate.Result{}, fmt.Errorf("read page: %w", err)
	}
	root, err := structured.Parse(b, text)
	if err != nil {
		return candidate.Result{}, fmt.Errorf("read page: %w", err)
	}
	found, err := structured.Read(b, structured.Page{URL: page.URL, Root: root, Timezone: source.Timezone, Now: now})
	if err != nil {
		return candidate.Result{}, fmt.Errorf("read page: %w", err)
	}
	switch {
	case len(found.Observations) > 0:
	case needsJavaScript(root):
		found.Notes.Add(collect.NoteNeedsJavaScript, "the page is empty until its scripts have run, which a collector doesn't do")
	default:
		found.Notes.Add(collect.NoteNoEvents, "the page holds no dated event in its structured data")
	}
	return found, nil
}

// emptyText is less text than any page has that shows something.
const emptyText = 200

// needsJavaScript: there are scripts, and next to nothing but them.
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
