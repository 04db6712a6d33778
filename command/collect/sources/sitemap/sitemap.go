// Package sitemap collects from the pages in a site's sitemaps.
//
//	site ──robots.txt──▶ index ──▶ sitemap ──▶ page ──▶ observations
//
// The address of a source may be that of a sitemap, of an index or of a site. The sitemaps of a site are those in its
// robots.txt, else /sitemap.xml. A sitemap is read while it arrives; only pages of its own site count.
package sitemap

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strconv"
	"strings"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/sources/site"
)

// Type is the source type that this package serves.
const Type = "sitemap"

const (
	// maxAddresses limits the addresses of a file, as sitemaps.org does.
	maxAddresses = 50_000
	// maxFiles limits the files of a source. Each index passes the rest of the number on, so that nested indexes lead to
	// no more.
	maxFiles = 1000
)

// Fetcher fetches files; [fetch.Fetcher] implements it.
type Fetcher interface {
	Do(ctx context.Context, ask fetch.Ask) (*fetch.Page, error)
	// Sitemaps returns the sitemaps in robots.txt.
	Sitemaps(ctx context.Context, rawURL string) ([]string, error)
}

// Collector is the collector of type sitemap.
type Collector struct {
	files Fetcher
	pages *site.Collector
}

var _ collect.Collector = (*Collector)(nil)

// New returns a Collector that reads pages with another one.
func New(files Fetcher, pages *site.Collector) *Collector {
	return &Collector{files: files, pages: pages}
}

// roleFile is the role of a sitemap or an index; the number after the colon limits the files that it leads to.
const roleFile = "sitemap:"

// filesOf returns how many files a file may lead to.
func filesOf(page collect.Known) int {
	if page.Root {
		return maxFiles - 1
	}
	n, err := strconv.Atoi(strings.TrimPrefix(page.Role, roleFile))
	if err != nil {
		return 0
	}
	return min(max(n, 0), maxFiles)
}

// Start implements collect.Collector. The walk through a site begins with its robots.txt, because its front page may
// be in a sitemap.
func (*Collector) Start(source collect.Source) []collect.Link {
	start := collect.Link{Address: source.URL, Role: roleFile, List: true}
	if u, err := url.Parse(source.URL); err == nil && strings.Trim(u.Path, "/") == "" && u.RawQuery == "" {
		start.Address = (&url.URL{
			Scheme: u.Scheme,
			User:   u.User,
			Host:   u.Host,
			Path:   robotsPath,
		}).String()
	}
	return []collect.Link{start}
}

const robotsPath = "/robots.txt"

// Read reads a sitemap, or a page of one.
func (c *Collector) Read(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	if page.Role == site.RolePage {
		return c.pages.Linked(ctx, source, page) //nolint:wrapcheck // it names the type
	}
	read, err := c.list(ctx, page)
	if err != nil {
		return collect.Page{}, fmt.Errorf("collect sitemap: %w", err)
	}
	return read, nil
}

// list reads a file, or that of a site.
func (c *Collector) list(ctx context.Context, page collect.Known) (collect.Page, error) {
	if u, err := url.Parse(page.Address); page.Root && err == nil && u.Path == robotsPath {
		return c.site(ctx, page)
	}
	read, err := c.file(ctx, page.Address, page)
	if page.Root && errors.Is(err, collect.ErrUnsupportedContent) {
		named, other := c.site(ctx, page)
		switch {
		case ctx.Err() != nil:
			return collect.Page{}, context.Cause(ctx)
		case other == nil:
			named.Requests += read.Requests
			return named, nil
		}
	}
	return read, err
}

// site finds the sitemaps of a site. If robots.txt names none, it reads the usual one.
func (c *Collector) site(ctx context.Context, page collect.Known) (collect.Page, error) {
	root, err := url.Parse(page.Address)
	if err != nil {
		return collect.Page{}, fmt.Errorf("%w: malformed", collect.ErrBadURL)
	}
	named, err := c.files.Sitemaps(ctx, page.Address)
	if err != nil {
		return collect.Page{}, err //nolint:wrapcheck // list does
	}
	set := links.New(root, nil, maxFiles-1)
	for _, address := range named {
		set.Add(address, collect.Link{List: true})
	}
	if len(set.Links) == 0 {
		return c.usual(ctx, root, page, len(named))
	}
	var read collect.Page
	handOn(set, maxFiles-1, &read)
	return read, nil
}

// usual reads the sitemap at the usual path if robots.txt names none of the site; others is the number of other sites'
// ones.
func (c *Collector) usual(ctx context.Context, root *url.URL, page collect.Known, others int) (collect.Page, error) {
	read, err := c.file(ctx, root.ResolveReference(&url.URL{Path: "/sitemap.xml"}).String(), page)
	switch {
	case others > 0 && err != nil:
		return read, fmt.Errorf("robots.txt names %d sitemaps, none of them on this site, and /sitemap.xml: %w", others, err)
	case others > 0:
		read.Notes.Add(collect.NoteLeftOut, "robots.txt names %d sitemaps, none of them on this site: /sitemap.xml was "+
			"read in their place", others)
	}
	return read, err
}

// handOn links files. Each may lead to an equal part of the remaining number.
func handOn(files *links.Set, most int, read *collect.Page) {
	if n := len(files.Links); n > 0 {
		share := (most - n) / n
		for _, link := range files.Links {
			link.Role = roleFile + strconv.Itoa(share)
			read.Links = append(read.Links, link)
		}
	}
	if files.Cut() > 0 {
		read.Notes.Add(collect.NoteTruncated, "%d sitemaps were left out: a source may have %d in all", files.Cut(), maxFiles)
	}
	files.Note(&read.Notes)
}

// reading is the version of the reader of files, see package site.
const reading = 2

// state is the content of collect.State of a file.
type state struct {
	Reading    int              `json:"reading"`
	Role       string           `json:"role"`
	Validators fetch.Validators `json:"validators"`
	// Digest is that of the body, for servers that have no validators.
	Digest string `json:"digest,omitempty"`
}

// remembered returns the stored state of a file, if it has the current version.
func remembered(page collect.Known) state {
	var last state
	if json.Unmarshal(page.State, &last) != nil || last.Reading != reading || last.Role != page.Role {
		return state{}
	}
	return last
}

// encode returns the state to store, nil if it is too long.
func (s state) encode() (collect.State, error) {
	data, err := json.Marshal(s)
	if err == nil && len(data) > collect.MaxState {
		return nil, nil // nil means unknown
	}
	return data, err //nolint:wrapcheck // it can't fail
}
