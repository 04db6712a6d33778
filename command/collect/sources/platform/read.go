package platform

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/posts"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// Entry is an event or a post of a platform.
type Entry struct {
	// Event is an event of the platform. If it is nil, Post is read.
	Event *candidate.Candidate
	Post  posts.Post
	Block happening.Block
	// URL is the address of the entry.
	URL *url.URL
}

// Observe returns the observations of a page's entries.
func Observe(ctx context.Context, entries []Entry, timezone string, window timing.Window) (collect.Page, error) {
	b := budget.New(ctx)
	var page collect.Page
	seen := map[string]bool{}
	for _, t := range entries {
		if !b.Work(100) {
			break
		}
		found, standing := []*candidate.Candidate{t.Event}, happening.FromPlatform
		if t.Event == nil {
			t.Post.Zone, standing = timezone, happening.FromPost
			var passed []posts.Passed
			found, passed = posts.Read(b, t.Post)
			for _, p := range passed {
				page.Passed = append(page.Passed, collect.Passed{Address: shown(t.URL), Words: p.Words, Why: p.Why})
			}
		}
		if len(found) == 0 || t.URL == nil {
			continue
		}
		subjects := make([]string, len(found))
		for i, c := range found {
			subjects[i] = identity.Title(c.Title) // the subject of a post is its event
		}
		result := candidate.Observe(b, candidate.Page{
			URL:      t.URL,
			Timezone: timezone,
			Headings: subjects,
			Window:   window,
		}, found, nil)
		page.Notes = append(page.Notes, result.Notes...)
		for _, o := range result.Observations {
			if last := o.Details.Last(); seen[o.Key] || last.Before(window.From) {
				continue
			}
			seen[o.Key] = true
			o.Source, o.Standing = t.Block, standing
			page.Observations = append(page.Observations, o)
		}
	}
	if len(page.Notes) > maxNotes {
		page.Notes = page.Notes[:maxNotes]
	}
	if err := b.Err(); err != nil {
		return collect.Page{}, fmt.Errorf("read posts: %w", err)
	}
	return page, nil
}

// maxNotes equals the limit of a page of a site.
const maxNotes = 20

func shown(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.String()
}

// Link parses an address that a platform gives; nil if it is not one of the web.
func Link(raw string) *url.URL {
	u, err := url.Parse(strings.TrimSpace(raw))
	if err != nil || u.Scheme != "https" && u.Scheme != "http" || u.Host == "" || u.User != nil {
		return nil
	}
	return u
}

// Images returns the valid addresses.
func Images(raw ...string) []string {
	var all []string
	for _, r := range raw {
		if u := Link(r); u != nil {
			all = append(all, u.String())
		}
	}
	return all
}

// Address names a page of a source's answers. It contains no credentials; [ParseAddress] reverses it.
type Address struct {
	Platform, Account string
	// Part names a list of the account, Cursor the position in it. Both are optional.
	Part, Cursor string
}

// String returns the address as it is stored.
func (a Address) String() string {
	text := a.Platform + ":" + url.PathEscape(a.Account)
	if a.Part != "" {
		text += "/" + url.PathEscape(a.Part)
	}
	if a.Cursor != "" {
		text += "?cursor=" + url.QueryEscape(a.Cursor)
	}
	return text
}

// ParseAddress parses an address. An invalid one means the account's first page.
func ParseAddress(text string) Address {
	u, err := url.Parse(text)
	if err != nil {
		return Address{}
	}
	account, part, _ := strings.Cut(u.Opaque, "/")
	a := Address{Platform: u.Scheme, Cursor: u.Query().Get("cursor")}
	a.Account, _ = url.PathUnescape(account)
	a.Part, _ = url.PathUnescape(part)
	return a
}

// maxPages limits a walk through one list of an account.
const maxPages = 100

// Next adds the following page, or a note if a promised page is left out. The role of a page is its depth.
func (a Address) Next(page *collect.Page, known collect.Known, platform, cursor string) {
	depth, _ := strconv.Atoi(known.Role)
	switch {
	case cursor == "":
	case cursor == a.Cursor:
		page.Notes.Add(collect.NoteTruncated, "%s gave the same page again, so the rest was left out", platform)
	case depth+1 >= maxPages:
		page.Notes.Add(collect.NoteTruncated, "%s has more than %d pages of the account, so the rest was left out", platform,
			maxPages)
	default:
		a.Cursor = cursor
		link := collect.Link{Address: a.String(), Role: strconv.Itoa(depth + 1), List: true}
		if len(link.Address) > collect.MaxAddress {
			page.Notes.Add(collect.NoteTruncated, "%s gave a cursor that is too long, so the rest was left out", platform)
			return
		}
		page.Links = append(page.Links, link)
	}
}

// Handle returns an account's name without the leading sign.
func Handle(source collect.Source) string { return strings.TrimPrefix(source.Handle, "@") }

const (
	// Back is the maximum age of a post that is read: few announce anything farther ahead.
	Back = 180 * 24 * time.Hour
	// reading is the version of the reader of posts. A higher one reads unchanged pages again.
	reading = 1
)

// state is the stored state of a page.
type state struct {
	Reading  int    `json:"reading"`
	Timezone string `json:"timezone,omitempty"`
	Window   string `json:"window"`
	Digest   string `json:"digest"`
	// Extra belongs to the platform.
	Extra string `json:"extra,omitempty"`
}

// Remember returns the state of a page from its entries, without the parts that platforms change in each answer, and
// reports whether it is unchanged.
func Remember(known collect.State, timezone string, window timing.Window, entries any,
	extra string) (next collect.State,
	unchanged bool) {
	data, err := json.Marshal(entries, json.Deterministic(true), lenient)
	if err != nil {
		return nil, false
	}
	digest := sha256.Sum256(data)
	now := state{
		Reading:  reading,
		Timezone: timezone,
		Window:   window.Key(),
		Digest:   base64.RawStdEncoding.EncodeToString(digest[:]),
		Extra:    extra,
	}
	next, err = json.Marshal(now)
	if err != nil {
		return nil, false
	}
	var last state
	return next, json.Unmarshal(known, &last) == nil && last == now
}

// Extra returns what a platform stored in the state of a page.
func Extra(known collect.State) string {
	var last state
	if json.Unmarshal(known, &last) != nil {
		return ""
	}
	return last.Extra
}

// Stable returns the address of an image without the parts that platforms change in each answer.
func Stable(image string) string {
	before, _, _ := strings.Cut(image, "?")
	return before
}
