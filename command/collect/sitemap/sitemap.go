// Package sitemap collects from the pages that a site's sitemaps list.
//
//	site ──robots.txt──▶ index ──▶ sitemap ──▶ page ──▶ observations
//
// The address of a source may be that of a sitemap, of an index or of a site. Of a site, the sitemaps are those that
// its robots.txt names, else /sitemap.xml. A sitemap is read while it comes; only pages of its own site count.
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
	"carillon/command/collect/fetch"
	"carillon/command/collect/links"
	"carillon/command/collect/site"
)

// Type is the source type that this package serves.
const Type = "sitemap"

const (
	// maxAddresses is how many addresses of a file are read, as sitemaps.org has it.
	maxAddresses = 50_000
	// maxFiles is how many files belong to a source. Each index hands on what is left of them, so that no nesting of
	// indexes leads to more.
	maxFiles = 1000
)

// Fetcher gets files; [fetch.Fetcher] does.
type Fetcher interface {
	Do(ctx context.Context, ask fetch.Ask) (*fetch.Page, error)
	// Sitemaps lists what robots.txt names.
	Sitemaps(ctx context.Context, rawURL string) ([]string, error)
}

// Collector is the collector of type sitemap.
type Collector struct {
	files Fetcher
	pages *site.Collector
}

var _ collect.Collector = (*Collector)(nil)

// New makes a Collector that reads pages by another one.
func New(files Fetcher, pages *site.Collector) *Collector {
	return &Collector{files: files, pages: pages}
}

// roleFile is a sitemap or an index; behind the colon stands how many files it may lead to in all.
const roleFile = "sitemap:"

// filesOf is how many files a file may lead to.
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

// Start implements collect.Collector. Of a site, a walk begins with its robots.txt: its front page may be one of those
// that a sitemap lists.
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

// site finds the sitemaps of a site. Where robots.txt names none, the usual one is read in its
// place.
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

// usual reads the sitemap where it is when robots.txt names none of the site, but so many others.
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

// handOn links files. Each may lead to as many further ones as are left for it.
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

// reading is the version of how files are read, see package site.
const reading = 1

// state is what collect.State holds of a file.
type state struct {
	Reading    int              `json:"reading"`
	Role       string           `json:"role"`
	Validators fetch.Validators `json:"validators"`
	// Digest is that of the body, for servers that have no validators.
	Digest string `json:"digest,omitempty"`
}

// remembered gives what is remembered of a file, if it holds for how it is read now.
func remembered(page collect.Known) state {
	var last state
	if json.Unmarshal(page.State, &last) != nil || last.Reading != reading || last.Role != page.Role {
		return state{}
	}
	return last
}

// encode gives the state as it is stored. One that would be too long is none.
func (s state) encode() (collect.State, error) {
	data, err := json.Marshal(s)
	if err == nil && len(data) > collect.MaxState {
		return nil, nil // which is "nothing is known"
	}
	return data, err //nolint:wrapcheck // it can't fail
}
