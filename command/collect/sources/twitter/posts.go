package twitter

import (
	"cmp"
	"context"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/markup"
	"carillon/command/collect/extract/place"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/platform"
)

type answer struct {
	Data     []tweet `json:"data"`
	Includes struct {
		Users  []user  `json:"users"`
		Media  []media `json:"media"`
		Places []spot  `json:"places"`
	} `json:"includes"`
	Errors []problem `json:"errors"`
	Meta   *struct {
		Next string `json:"next_token"`
	} `json:"meta"`
}

type tweet struct {
	ID      string `json:"id"`
	Text    string `json:"text"`
	Created string `json:"created_at"`
	Author  string `json:"author_id"`
	Note    struct {
		Text     string   `json:"text"`
		Entities entities `json:"entities"`
	} `json:"note_tweet"`
	Entities    entities `json:"entities"`
	Attachments struct {
		Media []string `json:"media_keys"`
	} `json:"attachments"`
	Geo struct {
		Place string `json:"place_id"`
	} `json:"geo"`
}

type entities struct {
	URLs []struct {
		URL      string `json:"url"`
		Expanded string `json:"expanded_url"`
		MediaKey string `json:"media_key"`
	} `json:"urls"`
}

type media struct {
	Key     string `json:"media_key"`
	URL     string `json:"url"`
	Preview string `json:"preview_image_url"`
}

type spot struct {
	ID      string `json:"id"`
	Name    string `json:"full_name"`
	Country string `json:"country_code"`
}

// posts reads a page of an account's posts.
func (c *Collector) posts(ctx context.Context, source collect.Source, known collect.Known, at platform.Address,
	id string) (collect.Page, error) {
	query := url.Values{
		"max_results": {strconv.Itoa(pageSize)}, "exclude": {"retweets,replies"},
		"tweet.fields": {"id,text,created_at,author_id,lang,entities,attachments,geo,note_tweet"},
		"expansions":   {"author_id,attachments.media_keys,geo.place_id"},
		"user.fields":  {"id,name,username,profile_image_url,protected"},
		"media.fields": {"media_key,type,url,preview_image_url"}, "place.fields": {"id,full_name,country_code"},
		// A day, so that the pages of a walk belong to one query.
		"start_time": {c.client.Now().UTC().Add(-platform.Back).Truncate(24 * time.Hour).Format(time.RFC3339)},
	}
	if at.Cursor != "" {
		query.Set("pagination_token", at.Cursor)
	}
	var a answer
	if err := c.ask(ctx, "/users/"+id+"/tweets", query, "tweets", &a); err != nil {
		return collect.Page{}, err
	}
	if len(a.Data) == 0 && (a.Meta == nil || len(a.Errors) > 0) {
		return collect.Page{}, c.problem(at.Account, a.Errors)
	}
	next := ""
	if a.Meta != nil {
		next = a.Meta.Next
	}
	window := c.window()
	entries := a.entries(at.Account)
	pictures := slices.Clone(a.Includes.Media)
	for i := range pictures {
		pictures[i].URL, pictures[i].Preview = platform.Stable(pictures[i].URL), platform.Stable(pictures[i].Preview)
	}
	state, unchanged := platform.Remember(known.State, source.Timezone, window, []any{a.Data, pictures, next}, id)
	if unchanged {
		return collect.Page{Unchanged: true, State: state}, nil
	}
	page, err := platform.Observe(ctx, entries, source.Timezone, window)
	if err != nil {
		return collect.Page{}, err
	}
	page.State = state
	if len(a.Errors) > 0 && len(a.Data) > 0 {
		page.Notes.Add(collect.NoteSkippedEvent, "X left out %d things that the posts refer to, such as deleted posts or "+
			"pictures", len(a.Errors))
	}
	at.Part = id
	at.Next(&page, known, "X", next)
	// Posts leave the queried period with time, and are not gone then.
	page.Partial = page.Notes.Partial() || next == ""
	return page, nil
}

func (a answer) entries(account string) []platform.Entry {
	all := make([]platform.Entry, 0, len(a.Data))
	for _, t := range a.Data {
		stamp, err := timing.Parse(t.Created, false)
		if err != nil || !isNumber(t.ID) {
			continue
		}
		by := happening.Publisher{Type: "account", Name: account, Username: account}
		for _, u := range a.Includes.Users {
			if u.ID == t.Author {
				by.Name, by.Username = markup.Plain(u.Name), cmp.Or(u.Username, account)
				by.AvatarURL = cmp.Or(append(platform.Images(u.Avatar), "")[0])
			}
		}
		shown := &url.URL{Scheme: "https", Host: "x.com", Path: "/" + by.Username + "/status/" + t.ID}
		post := posts.Post{
			Field:     "text",
			CreatedAt: stamp.In(time.UTC),
			Permalink: shown,
			Organizer: &happening.Organizer{Name: cmp.Or(by.Name, by.Username), URL: "https://x.com/" +
				url.PathEscape(by.Username)},
		}
		post.Text, post.Links = t.text()
		for _, m := range a.Includes.Media {
			if slices.Contains(t.Attachments.Media, m.Key) {
				post.Images = append(post.Images, platform.Images(cmp.Or(m.URL, m.Preview))...)
			}
		}
		for _, p := range a.Includes.Places {
			if p.ID == t.Geo.Place {
				post.Where = p.where()
			}
		}
		all = append(all, platform.Entry{Post: post, URL: shown, Block: happening.Block{
			Type:         Type,
			Subtype:      "post",
			PermalinkURL: shown.String(),
			Publisher:    &by,
		}})
	}
	return all
}

// text returns the whole text of a post with its short links resolved. Links to its own pictures are left out.
func (t tweet) text() (text string, links []string) {
	text, found := t.Text, t.Entities
	if t.Note.Text != "" {
		text, found = t.Note.Text, t.Note.Entities
	}
	for _, u := range found.URLs {
		expanded := platform.Link(u.Expanded)
		switch {
		case u.URL == "" || u.MediaKey != "":
			text = strings.ReplaceAll(text, cmp.Or(u.URL, "\x00"), "")
		case expanded != nil:
			text = strings.ReplaceAll(text, u.URL, expanded.String())
			links = append(links, expanded.String())
		}
	}
	return text, links
}

func (p spot) where() candidate.Where {
	town, _, _ := strings.Cut(p.Name, ",")
	return candidate.Where{AddressText: markup.Plain(p.Name), Address: place.Address{Locality: markup.Plain(town),
		Country: p.Country}}
}
