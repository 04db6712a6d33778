package platform_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"carillon/command/collect"
	"carillon/command/collect/sources/platform"
)

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
					if len(link.Address) > collect.MaxAddress {
						t.Errorf("an address of %d bytes", len(link.Address))
					}
				}
			}
		}
	})
}

// Malformed addresses are none: of a stored page the account's first one is read.
func TestMalformedAddresses(t *testing.T) {
	t.Parallel()
	for _, text := range []string{":", "tiktok:kaj%zz\x00", "a b:c"} {
		if got := platform.ParseAddress(text); got != (platform.Address{}) {
			t.Errorf("%q is %+v", text, got)
		}
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
