package platform_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/collect/sources/platform"
	"carillon/eventstore/storetest/assert"
)

// documented returns the documented answers of a platform.
func documented(t *testing.T, name string) []reply {
	t.Helper()
	switch name {
	case "facebook":
		return []reply{
			{match: "/events?", body: strings.Replace(sample(t, "fb_page_events.json"), `"next":`, `"earlier":`, 1)},
			{match: "/posts?", body: strings.Replace(sample(t, "fb_page_posts.json"), `"next":`, `"earlier":`, 1)},
		}
	case "instagram":
		return []reply{{match: "after", body: `{"business_discovery":{"media":{"data":[]}}}`},
			{body: sample(t, "ig_business_discovery.json")}}
	case "tiktok":
		return []reply{{match: `"cursor"`, body: `{"data":{"videos":[],"has_more":false},"error":{"code":"ok"}}`},
			{body: sample(t, "tiktok_video_list.json")}}
	default:
		return []reply{
			{match: "/by/username/", body: sample(t, "x_user_lookup.json")},
			{match: "pagination_token", body: `{"meta":{"result_count":0}}`},
			{match: "/tweets", body: sample(t, "x_user_tweets.json")},
		}
	}
}

func TestDocumentedAnswers(t *testing.T) {
	t.Parallel()
	tests := map[string][]string{
		"facebook": {
			"Harbour Jazz Night | 2026-12-05T19:00Z | facebook event | https://www.facebook.com/events/1000000000000001/",
			"Open rehearsal | 2026-12-05T13:00Z | facebook post | https://www.facebook.com/400000001/posts/500000001",
		},
		"instagram": {"Jazz Night | 2026-12-05 | instagram post | https://www.instagram.com/p/AAAAAAAAAAA/"},
		"tiktok": {"Winter market | 2026-12-04 | tiktok video | " +
			"https://www.tiktok.com/@kajhallen/video/7400000000000000001"},
		"twitter": {"Jazz Night | 2026-12-05T19:00Z | twitter post | https://x.com/kajhallen/status/1990000000000000001"},
	}
	for name, want := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, o := play(t, documented(t, name)...)
			found := walk(t, collectors(o)[name], account(name), nil)
			var got []string
			for _, observation := range found.observations {
				got = append(got, summary(observation))
				if observation.Source.Publisher == nil || observation.Source.Publisher.Username == "" &&
					observation.Source.Publisher.Name == "" {
					t.Errorf("publisher = %+v", observation.Source.Publisher)
				}
			}
			if found.err != nil || !slices.Equal(got, want) {
				t.Errorf("found %q, %v\nwant  %q\nnotes %+v, passed %+v\nasked %+v", got, found.err, want, found.notes,
					found.passed, server.requests())
			}
		})
	}
}

// The platform's event keeps everything that Facebook states.
func TestFacebookEvent(t *testing.T) {
	t.Parallel()
	_, o := play(t, documented(t, "facebook")...)
	found := walk(t, collectors(o)["facebook"], account("facebook"), nil)
	event := found.observations[0]
	d := event.Details
	assert.True(t, len(d.Instances) == 2 && d.Time.TemporalPattern == happening.Recurring &&
		d.Time.Timezone == "Europe/Copenhagen", "%d instances, %+v", len(d.Instances), d.Time)
	assert.True(t, d.Location != nil && d.Location.Venue.Name == "Kajhallen" && d.Location.Coordinates != nil &&
		d.Location.DisplayAddress == "Kajhallen, Havnegade 1, 8000 Aarhus, Denmark", "location = %+v", d.Location)
	assert.True(t, d.PrimaryImage == "https://scontent.example/cover.jpg" &&
		slices.Contains(d.URLs, "https://tickets.example/hj1") && d.Organizer != nil && d.Organizer.Name == "Kajhallen",
		"details = %+v", d)
	if event.Standing != happening.FromPlatform || found.observations[1].Standing != happening.FromPost {
		t.Errorf("standings %d and %d", event.Standing, found.observations[1].Standing)
	}
	assert.Equal(t, event.Key, "url:facebook.com/events/1000000000000001", "key")
}

func TestCancelledFacebookEvent(t *testing.T) {
	t.Parallel()
	replies := documented(t, "facebook")
	replies[0].body = strings.Replace(replies[0].body, `"is_canceled":false`, `"is_canceled":true`, 1)
	_, o := play(t, replies...)
	for _, instance := range walk(t, collectors(o)["facebook"], account("facebook"),
		nil).observations[0].Details.Instances {
		assert.Equal(t, instance.Status, happening.Cancelled, "status")
	}
}

// Private events and drafts are not shown.
func TestPrivateFacebookEvents(t *testing.T) {
	t.Parallel()
	for _, how := range []string{`"type":"private"`, `"type":"friends"`, `"type":"public","is_draft":true`} {
		replies := documented(t, "facebook")
		replies[0].body = strings.Replace(replies[0].body, `"type":"public"`, how, 1)
		_, o := play(t, replies...)
		assert.Equal(t, len(walk(t, collectors(o)["facebook"], account("facebook"), nil).observations), 1,
			"%s … observations, want the post alone", how)
	}
}

// Unchanged pages are not read again. The signatures in image addresses, which change in each answer, are ignored.
func TestUnchangedPages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"facebook", "instagram", "tiktok", "twitter"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server, o := play(t, documented(t, name)...)
			c, source := collectors(o)[name], account(name)
			pages := frontier.New(c.Start(source), now)
			first := walk(t, c, source, pages)
			server.mu.Lock()
			for i := range server.replies {
				server.replies[i].body = strings.NewReplacer(".jpg", ".jpg?oh=1&oe=2", ".jpeg", ".jpeg?x-expires=3").
					Replace(server.replies[i].body)
			}
			server.mu.Unlock()
			pages.Begin(c.Start(source), now)
			again := walk(t, c, source, pages)
			assert.True(t, again.unchanged == len(first.addresses) && len(again.observations) == 0,
				"%d of %d pages unchanged, %d observations", again.unchanged, len(first.addresses), len(again.observations))
		})
	}
}

// An X account is looked up once.
func TestAccountLookedUpOnce(t *testing.T) {
	t.Parallel()
	server, o := play(t, documented(t, "twitter")...)
	c, source := collectors(o)["twitter"], account("twitter")
	pages := frontier.New(c.Start(source), now)
	walk(t, c, source, pages)
	pages.Begin(c.Start(source), now)
	walk(t, c, source, pages)
	lookups := 0
	for _, r := range server.requests() {
		if strings.Contains(r.path, "/by/username/") {
			lookups++
		}
	}
	assert.Equal(t, lookups, 1, "the account was looked up … times")
}

// roundTrip answers without a network.
type roundTrip func(*http.Request) (int, string)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) {
	status, body := f(r)
	return &http.Response{
		StatusCode: status,
		Header:     http.Header{},
		Body:       io.NopCloser(strings.NewReader(body)),
		Request:    r,
	}, nil
}

// A walk ends after a hundred pages of an endless account, with a note; repeated cursors end it too.
func TestEndlessAccounts(t *testing.T) {
	t.Parallel()
	bodies := map[string]string{
		"facebook": `{"data":[{"id":"1_2","message":"Hello","created_time":"2026-11-19T10:00:00+0000"}],` +
			`"paging":{"cursors":{"after":"c%d"},"next":"x"}}`,
		"instagram": `{"business_discovery":{"media":{"data":[{"caption":"Hello",` +
			`"permalink":"https://www.instagram.com/p/A/","timestamp":"2026-11-19T10:00:00+0000"}],` +
			`"paging":{"cursors":{"after":"c%d"}}}}}`,
		"tiktok": `{"data":{"videos":[{"id":"1","title":"Hello","create_time":1795082400}],"cursor":%d,"has_more":true}` +
			`,"error":{"code":"ok"}}`,
		"twitter": `{"data":[{"id":"1","text":"Hello","created_at":"2026-11-19T10:00:00.000Z"}],` +
			`"meta":{"next_token":"c%d"}}`,
	}
	for name, body := range bodies {
		for _, modulus := range []int64{1 << 40, 3} {
			t.Run(fmt.Sprint(name, modulus), func(t *testing.T) {
				t.Parallel()
				var asked atomic.Int64
				answer := roundTrip(func(r *http.Request) (int, string) {
					if strings.Contains(r.URL.Path, "/by/username/") {
						return http.StatusOK, `{"data":{"id":"7","username":"kajhallen"}}`
					}
					return http.StatusOK, fmt.Sprintf(body, 100+asked.Add(1)%modulus)
				})
				hosts := free{}
				c := collectors(platform.Options{
					Base:      "http://platform.example",
					Transport: answer,
					Hosts:     hosts,
					Now:       now0,
				})[name]
				got := walkUpTo(t, c, account(name), nil, 250)
				truncated := strings.Contains(fmt.Sprint(got.notes), "more than 100 pages")
				if got.err != nil || truncated != (modulus > 3) || truncated && !got.partial ||
					modulus == 3 && len(got.addresses) > 10 {
					t.Errorf("%d pages, %v, notes %v", len(got.addresses), got.err, got.notes)
				}
			})
		}
	}
}

// FuzzAnswers shows that reading any answer ends, without panics and without showing the token.
func FuzzAnswers(f *testing.F) {
	for _, name := range []string{"fb_page_events.json", "fb_page_posts.json", "fb_error.json",
		"ig_business_discovery.json", "tiktok_video_list.json", "tiktok_error.json", "x_user_lookup.json",
		"x_user_tweets.json", "x_partial_error.json"} {
		f.Add(200, sample(f, name))
	}
	f.Add(403, `{"error":{"message":"`+secret+`","code":10}}`)
	f.Fuzz(func(t *testing.T, status int, body string) {
		if status < 200 || status > 599 {
			status = http.StatusOK
		}
		answer := roundTrip(func(*http.Request) (int, string) { return status, strings.ReplaceAll(body, secret, "") })
		for name, c := range collectors(platform.Options{
			Base:      "http://platform.example",
			Transport: answer,
			Hosts:     free{},
			Now:       now0,
		}) {
			for _, address := range []string{c.Start(account(name))[0].Address, name + ":kajhallen/7?cursor=x"} {
				page, err := c.Read(t.Context(), account(name), collect.Known{Link: collect.Link{Address: address}})
				keepsSecrets(t, fmt.Sprintf("%+v %v", page, err))
				for _, link := range page.Links {
					assert.True(t, len(link.Address) <= collect.MaxAddress, "an address of %d bytes", len(link.Address))
				}
			}
		}
	})
}

// Malformed addresses are none: of a stored page the account's first one is read.
func TestMalformedAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{":", "tiktok:kaj%zz\x00", "a b:c"} {
		assert.Equal(t, platform.ParseAddress(text), platform.Address{}, "%q", text)
	}
	for _, raw := range []string{"https://[::1", "https://example.org/%zz", "//example.org", "https://me@example.org/"} {
		if got := platform.Link(raw); got != nil {
			t.Errorf("%q is %s", raw, got)
		}
	}
	if got := platform.Link(" https://example.org/1 "); got == nil || got.String() != "https://example.org/1" {
		t.Errorf("got %v", got)
	}
}
