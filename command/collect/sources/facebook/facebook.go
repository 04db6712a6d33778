// Package facebook collects the events and posts of a page with the Graph API.
//
//	/{page}/events ──▶ events, page by page
//	/{page}/posts ───▶ posts, page by page ──▶ gate of package posts
//
// A token without permission to read events, which Facebook gives to its partners, still reads posts.
package facebook

import (
	"context"
	"errors"
	"net/url"
	"strconv"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/platform"
)

// Type is the source type that this package serves.
const Type = "facebook"

// Collector is the collector of type facebook.
type Collector struct {
	client *platform.Client
	token  string
	window func() timing.Window
}

var _ collect.Collector = (*Collector)(nil)

// New returns a Collector. Without a token all its sources need credentials.
func New(token string, window func() timing.Window, o platform.Options) *Collector {
	if o.Base == "" {
		o.Base = platform.GraphBase
	}
	return &Collector{client: platform.New("Facebook", platform.GraphInterval, o, token),
		token: token, window: window}
}

// Lists of an account, and the size of their pages.
const (
	events, posts = "events", "posts"
	pageSize      = 50 // larger pages with so many fields exceed Facebook's limits at times

	eventFields = "id,name,description,start_time,end_time,timezone,is_canceled,is_draft,is_online,online_event_format," +
		"online_event_third_party_url," +
		"event_times,place,cover,owner{id,name,username,picture{url}},ticket_uri,category,type,updated_time"
	postFields = "id,message,created_time,updated_time,permalink_url,full_picture,from{id,name,username,picture{url}}" +
		",status_type,is_published,place"
)

// Start implements collect.Collector.
func (*Collector) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: platform.Address{Platform: Type, Account: platform.Handle(source),
		Part: events}.String(), List: true}}
}

// Read implements collect.Collector.
func (c *Collector) Read(ctx context.Context, source collect.Source, known collect.Known) (collect.Page, error) {
	if c.token == "" {
		return collect.Page{}, c.client.NoCredentials("facebook=TOKEN")
	}
	at := platform.ParseAddress(known.Address)
	at.Platform, at.Account = Type, platform.Handle(source)
	if at.Part == posts {
		page, err := c.posts(ctx, source, known, at)
		return page, c.sentence(err, at)
	}
	page, err := c.events(ctx, source, known, at)
	var refusal *platform.Refusal
	if !known.Root || !errors.As(err, &refusal) {
		return page, c.sentence(err, at)
	}
	at = platform.Address{Platform: Type, Account: at.Account, Part: posts}
	page, err = c.posts(ctx, source, known, at)
	if err != nil {
		return page, c.sentence(err, at)
	}
	page.Requests++
	page.Partial = true
	page.Notes.Add(collect.NotePageFailed, "Facebook lets the token in "+platform.Setting+" read no events of this "+
		"page, so only its posts were read: events need the permission pages_read_engagement, "+
		"with Page Public Content Access if the page isn't your own")
	return page, nil
}

// sentence returns an error that names the account and the data.
func (c *Collector) sentence(err error, at platform.Address) error {
	var refusal *platform.Refusal
	var missing *platform.Missing
	switch {
	case errors.As(err, &refusal):
		return c.client.NotPermitted("the "+at.Part+" of "+strconv.Quote(at.Account),
			"the permission pages_read_engagement, with Page Public Content Access if the page isn't your own")
	case errors.As(err, &missing):
		return c.client.Unknown(at.Account, ", or does not show it: a source needs the name or number of a public page")
	}
	return err
}

type paging struct {
	Cursors struct {
		After string `json:"after"`
	} `json:"cursors"`
	// Next is set unless this is the last page. It contains the token, so it is neither followed nor stored.
	Next string `json:"next"`
}

// ask fetches a page of a list.
func (c *Collector) ask(ctx context.Context, at platform.Address, fields string, into any) error {
	query := url.Values{"fields": {fields}, "limit": {strconv.Itoa(pageSize)}}
	if at.Cursor != "" {
		query.Set("after", at.Cursor)
	}
	return c.client.Graph(ctx, c.token, "/"+url.PathEscape(at.Account)+"/"+at.Part, query, into)
}

// finish returns the page of entries, with its links.
func (c *Collector) finish(ctx context.Context, source collect.Source, known collect.Known, at platform.Address,
	entries []platform.Entry, stable any, p paging, links ...collect.Link) (collect.Page, error) {
	window := c.window()
	next := p.Cursors.After
	if p.Next == "" {
		next = ""
	}
	state, unchanged := platform.Remember(known.State, source.Timezone, window, []any{at.Part, stable, next, links}, "")
	if unchanged {
		return collect.Page{Unchanged: true, State: state, Requests: 1}, nil
	}
	page, err := platform.Observe(ctx, entries, source.Timezone, window)
	if err != nil {
		return collect.Page{}, err
	}
	page.State, page.Requests, page.Links = state, 1, links
	at.Next(&page, known, "Facebook", next)
	page.Partial = page.Notes.Partial()
	return page, nil
}

// isOld reports whether a post is too old to announce anything.
func (c *Collector) isOld(created time.Time) bool {
	return created.Before(c.client.Now().Add(-platform.Back))
}
