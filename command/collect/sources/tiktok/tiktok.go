// Package tiktok collects the videos of connected accounts with the Display API: each account has a separate token.
package tiktok

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/platform"
)

const (
	// Type is the source type that this package serves.
	Type = "tiktok"
	// Base is the default address of the API.
	Base = "https://open.tiktokapis.com/v2"

	pageSize = 20 // maximum of the API
	fields   = "id,title,video_description,create_time,cover_image_url,share_url"
	// interval keeps requests a tenth below the limit of 600 a minute.
	interval = 111 * time.Millisecond
	// limitRest is the period of the limit.
	limitRest = time.Minute
)

// Collector is the collector of type tiktok.
type Collector struct {
	client *platform.Client
	tokens map[string]string
	window func() timing.Window
}

var _ collect.Collector = (*Collector)(nil)

// New returns a Collector. The tokens are by account, in small letters; the one by "" is for all other accounts.
func New(tokens map[string]string, window func() timing.Window, o platform.Options) *Collector {
	if o.Base == "" {
		o.Base = Base
	}
	return &Collector{client: platform.New("TikTok", interval, o, slices.Collect(maps.Values(tokens))...),
		tokens: tokens, window: window}
}

// Start implements collect.Collector.
func (*Collector) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: platform.Address{Platform: Type, Account: platform.Handle(source)}.String(),
		List: true}}
}

type answer struct {
	Data *struct {
		Videos []video `json:"videos"`
		Cursor int64   `json:"cursor"`
		More   bool    `json:"has_more"`
	} `json:"data"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

type video struct {
	ID          jsontext.Value `json:"id"` // a string; a number in older answers
	Title       string         `json:"title"`
	Description string         `json:"video_description"`
	Created     int64          `json:"create_time"`
	Cover       string         `json:"cover_image_url"`
	Share       string         `json:"share_url"`
}

// Read implements collect.Collector.
func (c *Collector) Read(ctx context.Context, source collect.Source, known collect.Known) (collect.Page, error) {
	at := platform.ParseAddress(known.Address)
	at.Platform, at.Account = Type, platform.Handle(source)
	token := c.tokens[strings.ToLower(at.Account)]
	if token == "" {
		token = c.tokens[""]
	}
	switch {
	case len(c.tokens) == 0:
		return collect.Page{}, c.client.NoCredentials("tiktok:ACCOUNT=TOKEN")
	case token == "":
		return collect.Page{}, &platform.Error{
			Sentence: fmt.Sprintf("TikTok allows no reading of the account %q without a token of its owner: add "+
				"tiktok:%s=TOKEN to %s and restart the server", at.Account, at.Account, platform.Setting),
			Cause: collect.ErrNeedsCredentials,
		}
	}
	body := map[string]int64{"max_count": pageSize}
	if cursor, err := strconv.ParseInt(at.Cursor, 10, 64); err == nil {
		body["cursor"] = cursor
	}
	call := platform.Call{
		Method: http.MethodPost,
		Path:   "/video/list/",
		Query:  url.Values{"fields": {fields}},
		Body:   body,
		Token:  token,
	}
	raw, err := c.client.Do(ctx, call)
	if err != nil {
		return collect.Page{}, err
	}
	var a answer
	err = c.client.Read(raw, &a)
	if failure := c.failure(ctx, call, raw, a, err != nil, at.Account); failure != nil {
		return collect.Page{}, failure
	}
	return c.page(ctx, source, known, at, a)
}

// failure translates the API's codes: success is the code "ok", whatever the status.
func (c *Collector) failure(ctx context.Context, call platform.Call, raw *platform.Answer, a answer, broken bool,
	account string) error {
	success := raw.Status >= 200 && raw.Status <= 299
	switch a.Error.Code {
	case "ok", "":
		switch {
		case raw.Status == http.StatusTooManyRequests:
			return c.client.RestFor(ctx, call, max(platform.Retry(raw.Header, c.client.Now()), limitRest))
		case raw.Status == http.StatusUnauthorized:
			return c.client.Refused("")
		case !success:
			return c.client.Failed(raw.Status, "", "")
		case broken:
			return c.client.Read(raw, &a)
		case a.Error.Code == "" || a.Data == nil:
			return c.client.Lacks("videos")
		}
		return nil
	case "rate_limit_exceeded":
		return c.client.RestFor(ctx, call, max(platform.Retry(raw.Header, c.client.Now()), limitRest))
	case "access_token_invalid", "access_token_expired":
		return c.client.Refused("it is invalid or has expired, as TikTok's tokens do after a day")
	case "scope_not_authorized", "scope_permission_missed":
		return c.client.NotPermitted(fmt.Sprintf("the videos of %q", account),
			"the scope video.list, which the owner of the account grants")
	case "user_not_found", "invalid_user":
		return c.client.Unknown(account, "")
	}
	return c.client.Failed(raw.Status, "and code "+strconv.Quote(clip(a.Error.Code)), a.Error.Message)
}

const longestCode = 60

func clip(code string) string {
	if len(code) > longestCode {
		code = strings.ToValidUTF8(code[:longestCode], "")
	}
	return code
}

func (c *Collector) page(ctx context.Context, source collect.Source, known collect.Known, at platform.Address,
	a answer) (collect.Page, error) {
	window := c.window()
	var entries []platform.Entry
	stable := make([]video, len(a.Data.Videos))
	oldest, old := c.client.Now().Add(-platform.Back), false
	for i, v := range a.Data.Videos {
		stable[i] = v
		stable[i].Cover, stable[i].Share = platform.Stable(v.Cover), platform.Stable(v.Share)
		created := time.Unix(v.Created, 0).UTC()
		if created.Before(oldest) {
			old = true
			continue
		}
		t, owner := v.entry(created, at.Account)
		if owner != "" && !strings.EqualFold(owner, at.Account) {
			return collect.Page{}, &platform.Error{
				Sentence: fmt.Sprintf("the token for %q in %s is of the account %q: name it there, as tiktok:%s=TOKEN",
					at.Account, platform.Setting, owner, owner), Cause: collect.ErrNeedsCredentials,
			}
		}
		entries = append(entries, t)
	}
	more := a.Data.More && !old
	state, unchanged := platform.Remember(known.State, source.Timezone, window, []any{stable, a.Data.Cursor, more}, "")
	if unchanged {
		return collect.Page{Unchanged: true, State: state, Requests: 1}, nil
	}
	page, err := platform.Observe(ctx, entries, source.Timezone, window)
	if err != nil {
		return collect.Page{}, err
	}
	page.State, page.Requests = state, 1
	if more {
		at.Next(&page, known, "TikTok", strconv.FormatInt(a.Data.Cursor, 10))
	}
	page.Partial = old || page.Notes.Partial()
	return page, nil
}

// entry returns the post of a video, and its account if the address has one.
func (v video) entry(created time.Time, account string) (t platform.Entry, owner string) {
	id := strings.Trim(string(v.ID), `"`)
	shown := platform.Link(v.Share)
	if shown != nil {
		shown.RawQuery = "" // identifies the caller
		if name, _, ok := strings.Cut(strings.TrimPrefix(shown.Path, "/@"), "/"); ok && strings.HasPrefix(shown.Path, "/@") {
			owner = name
		}
	} else {
		shown = &url.URL{Scheme: "https", Host: "www.tiktok.com", Path: "/@" + account + "/video/" + id}
	}
	text := v.Description
	if text == "" {
		text = v.Title
	}
	by := &happening.Publisher{Type: "account", Name: account, Username: account}
	return platform.Entry{
		URL: shown, Block: happening.Block{
			Type:         Type,
			Subtype:      "video",
			PermalinkURL: shown.String(),
			Publisher:    by,
		},
		Post: posts.Post{
			Text:      text,
			Field:     "video_description",
			CreatedAt: created,
			Permalink: shown,
			Images:    platform.Images(v.Cover),
			Organizer: &happening.Organizer{Name: account, URL: "https://www.tiktok.com/@" + url.PathEscape(account)},
		},
	}, owner
}
