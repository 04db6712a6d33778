// Package instagram collects the posts of a business account with the Graph API's Business Discovery: the operator's
// own account reads the posts of other business and creator accounts.
package instagram

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/platform"
)

// Type is the source type that this package serves.
const Type = "instagram"

// Collector is the collector of type instagram.
type Collector struct {
	client         *platform.Client
	token, account string
	window         func() timing.Window
}

var _ collect.Collector = (*Collector)(nil)

// New returns a Collector. account is the number of the account that the token belongs to. Without a token
// all its sources need credentials.
func New(token, account string, window func() timing.Window, o platform.Options) *Collector {
	if o.Base == "" {
		o.Base = platform.GraphBase
	}
	return &Collector{
		client:  platform.New("Instagram", platform.GraphInterval, o, token),
		token:   token,
		account: account,
		window:  window,
	}
}

// Start implements collect.Collector.
func (*Collector) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: platform.Address{Platform: Type, Account: platform.Handle(source)}.String(),
		List: true}}
}

const (
	pageSize = 50
	fields   = "id,caption,media_type,media_product_type,media_url,thumbnail_url,permalink,timestamp"
)

// cursors matches the API's cursors; other texts would end the expression that contains them.
var cursors = regexp.MustCompile(`^[A-Za-z0-9_=+/%-]+$`)

type answer struct {
	Discovery *struct {
		Username string `json:"username"`
		Name     string `json:"name"`
		Avatar   string `json:"profile_picture_url"`
		Media    struct {
			Data   []media `json:"data"`
			Paging struct {
				Cursors struct {
					After string `json:"after"`
				} `json:"cursors"`
			} `json:"paging"`
		} `json:"media"`
	} `json:"business_discovery"`
}

type media struct {
	ID        string `json:"id"`
	Caption   string `json:"caption"`
	Type      string `json:"media_type"`
	Product   string `json:"media_product_type"`
	URL       string `json:"media_url"`
	Thumbnail string `json:"thumbnail_url"`
	Permalink string `json:"permalink"`
	Timestamp string `json:"timestamp"`
}

// Read implements collect.Collector.
func (c *Collector) Read(ctx context.Context, source collect.Source, known collect.Known) (collect.Page, error) {
	if c.token == "" {
		return collect.Page{}, c.client.NoCredentials("instagram:NUMBER=TOKEN with the number of your account")
	}
	at := platform.ParseAddress(known.Address)
	at.Platform, at.Account = Type, platform.Handle(source)
	after := ""
	if cursors.MatchString(at.Cursor) {
		after = ".after(" + at.Cursor + ")"
	}
	expansion := fmt.Sprintf(
		"business_discovery.username(%s){id,username,name,profile_picture_url,media_count,media.limit(%d)%s{%s}}", at.Account,
		pageSize, after, fields)
	var a answer
	if err := c.client.Graph(ctx, c.token, "/"+url.PathEscape(c.account), url.Values{"fields": {expansion}},
		&a); err != nil {
		return collect.Page{}, c.sentence(err, at.Account)
	}
	if a.Discovery == nil {
		return collect.Page{}, c.client.Lacks("an account")
	}
	return c.page(ctx, source, known, at, a)
}

func (c *Collector) sentence(err error, account string) error {
	var refusal *platform.Refusal
	var missing *platform.Missing
	switch {
	case errors.As(err, &refusal):
		return c.client.NotPermitted(fmt.Sprintf("the posts of %q", account),
			"the permissions instagram_basic, instagram_manage_insights and pages_read_engagement")
	case errors.As(err, &missing):
		return c.client.Unknown(account, ", or it is private or no business or creator account, which are all that "+
			"Business Discovery shows")
	}
	return err
}

func (c *Collector) page(ctx context.Context, source collect.Source, known collect.Known, at platform.Address,
	a answer) (collect.Page, error) {
	window := c.window()
	who := a.Discovery
	var entries []platform.Entry
	stable := make([]media, len(who.Media.Data))
	next, old := who.Media.Paging.Cursors.After, false
	oldest := c.client.Now().Add(-platform.Back)
	for i, m := range who.Media.Data {
		stable[i] = m
		stable[i].URL, stable[i].Thumbnail = platform.Stable(m.URL), platform.Stable(m.Thumbnail)
		stamp, err := timing.Parse(m.Timestamp, false)
		shown := platform.Link(m.Permalink)
		if err != nil || shown == nil {
			continue
		}
		created := stamp.In(time.UTC)
		if created.Before(oldest) {
			old = true
			continue
		}
		entries = append(entries, m.entry(created, shown, happening.Publisher{
			Type:      "account",
			Name:      markup.Plain(who.Name),
			Username:  cmp.Or(who.Username, at.Account),
			AvatarURL: cmp.Or(platform.Images(who.Avatar)...),
		}))
	}
	if old || !cursors.MatchString(next) {
		next = "" // the rest is older
	}
	state, unchanged := platform.Remember(known.State, source.Timezone, window, []any{stable, next}, "")
	if unchanged {
		return collect.Page{Unchanged: true, State: state, Requests: 1}, nil
	}
	page, err := platform.Observe(ctx, entries, source.Timezone, window)
	if err != nil {
		return collect.Page{}, err
	}
	page.State, page.Requests = state, 1
	if len(who.Media.Data) > 0 {
		at.Next(&page, known, "Instagram", next)
	}
	page.Partial = old || page.Notes.Partial()
	return page, nil
}

func (m media) entry(created time.Time, shown *url.URL, by happening.Publisher) platform.Entry {
	subtype := "post"
	if m.Product == "REELS" {
		subtype = "reel"
	}
	image := m.URL
	if m.Type == "VIDEO" || image == "" {
		image = m.Thumbnail
	}
	organizer := &happening.Organizer{Name: cmp.Or(by.Name, by.Username), URL: "https://www.instagram.com/" +
		url.PathEscape(by.Username) + "/"}
	return platform.Entry{
		URL: shown, Block: happening.Block{
			Type:         Type,
			Subtype:      subtype,
			PermalinkURL: shown.String(),
			Publisher:    &by,
		},
		Post: posts.Post{
			Text:      m.Caption,
			Field:     "caption",
			CreatedAt: created,
			Permalink: shown,
			Organizer: organizer,
			Images:    platform.Images(image),
		},
	}
}
