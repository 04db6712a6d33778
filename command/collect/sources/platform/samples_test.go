package platform_test

import (
	"slices"
	"strings"
	"testing"

	"carillon/aggregates/happening"
	"carillon/command/collect/crawl/frontier"
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
	if len(d.Instances) != 2 || d.Time.TemporalPattern != happening.Recurring || d.Time.Timezone != "Europe/Copenhagen" {
		t.Errorf("%d instances, %+v", len(d.Instances), d.Time)
	}
	if d.Location == nil || d.Location.Venue.Name != "Kajhallen" || d.Location.Coordinates == nil ||
		d.Location.DisplayAddress != "Kajhallen, Havnegade 1, 8000 Aarhus, Denmark" {
		t.Errorf("location = %+v", d.Location)
	}
	if d.PrimaryImage != "https://scontent.example/cover.jpg" || !slices.Contains(d.URLs, "https://tickets.example/hj1") ||
		d.Organizer == nil || d.Organizer.Name != "Kajhallen" {
		t.Errorf("details = %+v", d)
	}
	if event.Standing != happening.FromPlatform || found.observations[1].Standing != happening.FromPost {
		t.Errorf("standings %d and %d", event.Standing, found.observations[1].Standing)
	}
	if event.Key != "url:facebook.com/events/1000000000000001" {
		t.Errorf("key = %s", event.Key)
	}
}

func TestCancelledFacebookEvent(t *testing.T) {
	t.Parallel()
	replies := documented(t, "facebook")
	replies[0].body = strings.Replace(replies[0].body, `"is_canceled":false`, `"is_canceled":true`, 1)
	_, o := play(t, replies...)
	for _, instance := range walk(t, collectors(o)["facebook"], account("facebook"),
		nil).observations[0].Details.Instances {
		if instance.Status != happening.Cancelled {
			t.Errorf("status = %s", instance.Status)
		}
	}
}

// Private events and drafts are not shown.
func TestPrivateFacebookEvents(t *testing.T) {
	t.Parallel()
	for _, how := range []string{`"type":"private"`, `"type":"friends"`, `"type":"public","is_draft":true`} {
		replies := documented(t, "facebook")
		replies[0].body = strings.Replace(replies[0].body, `"type":"public"`, how, 1)
		_, o := play(t, replies...)
		if found := walk(t, collectors(o)["facebook"], account("facebook"), nil); len(found.observations) != 1 {
			t.Errorf("%s: %d observations, want the post alone", how, len(found.observations))
		}
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
			if again.unchanged != len(first.addresses) || len(again.observations) != 0 {
				t.Errorf("%d of %d pages unchanged, %d observations", again.unchanged, len(first.addresses),
					len(again.observations))
			}
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
	if lookups != 1 {
		t.Errorf("the account was looked up %d times", lookups)
	}
}
