// Package listing collects from a page that lists events: the events on it, and those of the pages that it links on
// its site.
//
//	listing ──▶ its own events
//	   │  └──▶ pages linked on the same site ──▶ observations
//	   └──▶ the next page of the listing: rel=next, by number, or by month
//
// Links to events are not marked, so all are followed: those to events of the listing first, navigation last. Pages
// without events are fetched at growing intervals, see [collect.Ahead]. Only links of the listing's own pages are
// followed, which limits the depth of a walk.
package listing

import (
	"context"
	"fmt"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/sources/site"
)

// Type is the source type that this package serves.
const Type = "siteIndexPage"

const (
	// maxPages limits the pages of a listing, by each way in which they follow each other.
	maxPages = 100
	// maxLinks limits the pages that one page of a listing links.
	maxLinks = 500
	// maxAnchors limits the links of a page that are examined. Most lead elsewhere or are repeated.
	maxAnchors = 20_000
	// maxStale is the number of pages in a row without new links after which a listing ends.
	maxStale = 2
)

// Collector is the collector of type siteIndexPage.
type Collector struct{ pages *site.Collector }

var _ collect.Collector = (*Collector)(nil)

// New returns a Collector that reads pages with another one.
func New(pages *site.Collector) *Collector { return &Collector{pages} }

// position is the position of a page in a listing. It is the page's role.
type position struct {
	// way is the way in which it was found.
	way way
	// page counts the pages of the listing; stale counts those without new links before it.
	page, stale int
	// digest is that of the previous page's contents.
	digest string
}

type way string

const (
	byNext   way = "next" // by rel=next, or the first page
	byNumber way = "number"
	byMonth  way = "month"
)

func (p position) role() string {
	return fmt.Sprintf("%s:%d:%d:%s", p.way, p.page, p.stale, p.digest)
}

// positionOf parses a role. No page follows an unknown one.
func positionOf(role string) position {
	last := position{way: byNumber, page: maxPages, stale: maxStale}
	parts := strings.Split(role, ":")
	if len(parts) != 4 {
		return last
	}
	page, err := strconv.Atoi(parts[1])
	if err != nil {
		return last
	}
	stale, err := strconv.Atoi(parts[2])
	if err != nil {
		return last
	}
	return position{
		way:    way(parts[0]),
		page:   page,
		stale:  stale,
		digest: parts[3],
	}
}

// Start implements collect.Collector.
func (*Collector) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.URL, Role: position{way: byNext, page: 1}.role(), List: true}}
}

// Read reads a page of the listing, or one that it links.
func (c *Collector) Read(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	if page.Role == site.RolePage || page.Role == site.RoleFeed {
		return c.pages.Read(ctx, source, page) //nolint:wrapcheck // it names the type
	}
	at := positionOf(page.Role)
	read, err := c.pages.Look(ctx, source, page, func(b *budget.Budget, html *site.HTML, read *collect.Page) {
		if page.Root {
			site.Feeds(b, html, read)
		}
		look := &look{
			budget: b,
			html:   html,
			at:     at,
			window: c.pages.Window(),
			pages:  links.New(html.URL, html.Base, maxLinks),
		}
		look.known(page)
		look.around()
		look.follow(read)
	})
	if len(read.Links) > 0 || !page.Root { // links are the purpose of such a page
		read.Notes = slices.DeleteFunc(read.Notes, func(n collect.Note) bool { return n.Code == collect.NoteNoEvents })
	}
	return read, err //nolint:wrapcheck // it names the type
}

// digest returns a digest by which pages of a listing with the same contents are recognized.
func digest(pages []collect.Link, shown []collect.Observation) string {
	all := make([]string, 0, len(pages)+len(shown))
	for _, link := range pages {
		all = append(all, link.Address)
	}
	for i := range shown {
		all = append(all, shown[i].Key)
	}
	slices.Sort(all)
	hash := fnv.New64a()
	for _, text := range slices.Compact(all) {
		_, _ = hash.Write([]byte(text + "\n"))
	}
	return strconv.FormatUint(hash.Sum64(), 16)
}
