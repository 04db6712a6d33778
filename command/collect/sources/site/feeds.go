package site

import (
	"bytes"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/net/html/atom"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/linkfile"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/timing"
)

const (
	// maxFeeds limits the feeds of a page, maxPosts the pages of a feed, and maxListed the entries of a feed that are
	// read.
	maxFeeds  = 3
	maxPosts  = 100
	maxListed = 1000
)

// linkWork is the cost of a link, in steps.
const linkWork = 100

// feedTypes are the media types of links to feeds.
var feedTypes = []string{"application/rss+xml", "application/atom+xml", "application/rdf+xml"}

// Feeds is a Look for the feeds that a page names as alternate forms, except those of comments.
func Feeds(b *budget.Budget, page *HTML, read *collect.Page) {
	set := links.New(page.URL, page.Base, maxFeeds)
	for n := range page.Root.Descendants() {
		if !b.Work(1) {
			return
		}
		if n.DataAtom != atom.Link && n.DataAtom != atom.A {
			continue
		}
		var href, rel, kind, title string
		for _, a := range n.Attr {
			switch a.Key {
			case "href":
				href = a.Val
			case "rel":
				rel = strings.ToLower(a.Val)
			case "type":
				kind, _, _ = strings.Cut(strings.ToLower(a.Val), ";")
			case "title":
				title = strings.ToLower(a.Val)
			}
		}
		if !slices.Contains(strings.Fields(rel), "alternate") || !slices.Contains(feedTypes, strings.TrimSpace(kind)) {
			continue
		}
		if strings.Contains(title, "comment") || strings.Contains(strings.ToLower(href), "/comments/") {
			continue
		}
		if !b.Work(linkWork) {
			return
		}
		set.Add(href, collect.Link{Role: RoleFeed, List: true})
	}
	read.Links = append(read.Links, set.Links...)
	if set.Cut() > 0 {
		read.Notes.Add(collect.NoteLeftOut, "the page links more than %d feeds, of which the first are read", maxFeeds)
	}
}

// readFeed reads the pages that a feed lists, and the events whose dates it states.
func readFeed(b *budget.Budget, page *fetch.Page, source collect.Source, window timing.Window) (content, error) {
	t := content{feed: links.New(page.URL, nil, maxPosts)}
	t.page = candidate.Page{
		URL:      page.URL,
		Timezone: source.Timezone,
		Window:   window,
		Many:     true,
	}
	sitemap, listed := false, 0
	result, err := linkfile.Read(b, bytes.NewReader(page.Body), page.Header.Get("Content-Type"),
		func(e linkfile.Entry) bool {
			if sitemap = e.Kind != linkfile.Post; sitemap {
				return false
			}
			t.feed.Add(e.Address, collect.Link{Role: RolePage, Lasting: true})
			t.addPost(page.URL, e)
			listed++
			return t.feed.Cut() == 0 && listed < maxListed
		})
	switch {
	case err != nil:
		return content{}, err //nolint:wrapcheck // readPage does
	case sitemap:
		return content{}, fmt.Errorf("%w: it is a sitemap, for which there is a source type", collect.ErrUnsupportedContent)
	case len(t.feed.Links) == 0 && len(t.found) == 0:
		t.empty = collect.Note{Code: collect.NoteNoEvents, Text: "the feed lists no page of its site"}
	}
	if t.feed.Cut() > 0 || listed == maxListed {
		result.Cut = fmt.Sprintf("it lists more than %d pages", maxPosts)
	}
	if result.Cut != "" {
		t.notes.Add(collect.NoteLeftOut, "a feed was not read whole: %s", result.Cut)
	}
	return t, nil
}

// addPost adds the event of a post that states its date, which is no date of publication.
func (t *content) addPost(feed *url.URL, e linkfile.Entry) {
	start, err := timing.Parse(e.Start, false)
	if e.Start == "" || err != nil {
		return
	}
	c := &candidate.Candidate{Syntax: collect.FeedEntry, Title: markup.Plain(e.Title)}
	when := timing.Range{Start: start}
	c.Says(collect.FieldTitle, "item.title", "", e.Title)
	c.Says(collect.FieldStart, "item.startDate", "", e.Start)
	if end, err := timing.Parse(e.End, false); err == nil {
		when.End = &end
		c.Says(collect.FieldEnd, "item.endDate", "", e.End)
	}
	c.Holdings = []candidate.Holding{{When: when}}
	if u, err := feed.Parse(strings.TrimSpace(e.Address)); err == nil && u.Host != "" && e.Address != "" {
		c.Addresses = []*url.URL{u}
		c.Says(collect.FieldURL, "item.link", "", e.Address)
	}
	if c.Where.Text(e.Place, func(string) string { return "" }); c.Where.Known() {
		c.Says(collect.FieldLocation, "item.location", "", e.Place)
	}
	t.found = append(t.found, c)
}
