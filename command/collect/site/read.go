package site

import (
	"context"
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
)

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
func Read(ctx context.Context, page *fetch.Page, source collect.Source, now time.Time) (candidate.Result, error) {
	r, ok := readers[page.MediaType]
	if !ok {
		return candidate.Result{}, fmt.Errorf("%w: %.60q", collect.ErrUnsupportedContent, page.MediaType)
	}
	return r.read(ctx, page, source, now)
}

// mostUnderWay bounds the bytes of pages that are read at one time in this process, each of which counts for some more
// than it is long. Reading takes processors and memory, not time to wait: more at once would only be slower.
const (
	mostUnderWay = 24 << 20
	leastWeight  = 1 << 20
)

var underWay = semaphore.NewWeighted(mostUnderWay)

func (r reader) read(ctx context.Context, page *fetch.Page, source collect.Source, now time.Time) (result candidate.Result, err error) {
	weight := min(int64(len(page.Body))+leastWeight, mostUnderWay)
	if err := underWay.Acquire(ctx, weight); err != nil {
		return candidate.Result{}, fmt.Errorf("wait to read page: %w", err)
	}
	defer underWay.Release(weight)
	defer func() {
		if p := recover(); p != nil {
			place := (&url.URL{Scheme: page.URL.Scheme, Host: page.URL.Host, Path: page.URL.Path}).String()
			result, err = candidate.Result{}, &collect.PanicError{Place: place, Value: p, Stack: debug.Stack()}
		}
	}()
	return r(budget.New(ctx), page, source, now)
}

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
