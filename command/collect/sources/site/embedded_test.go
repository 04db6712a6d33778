package site

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"golang.org/x/net/html"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/candidate"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestEmbeddedGoogleCalendars(t *testing.T) {
	t.Parallel()
	const file = "https://calendar.google.com/calendar/ical/choir%40group.example/public/basic.ics"
	for element, want := range map[string]string{
		`<iframe src="https://calendar.google.com/calendar/embed?src=choir%40group.example&amp;ctz=Europe%2FRome">`: file,
		`<iframe data-src="//www.google.com/calendar/embed?src=choir@group.example">`:                               file,
		`<iframe src="https://calendar.google.com/calendar/embed?src=Y2hvaXJAZ3JvdXAuZXhhbXBsZQ">`:                  file,
		`<a href="https://calendar.google.com/calendar/u/0?cid=Y2hvaXJAZ3JvdXAuZXhhbXBsZQ">Add`:                     file,
		`<iframe src="https://calendar.google.com/calendar/embed?src=en.uk%23holiday@group.v.example">`:             "",
		`<iframe src="https://maps.example/embed?src=choir@group.example">`:                                         "",
		`<iframe src="https://www.google.com/maps/embed?src=choir@group.example">`:                                  "",
	} {
		root := must.Get(html.Parse(strings.NewReader(element)))(t)
		page := &url.URL{Scheme: "https", Host: "choir.example", Path: "/dates"}
		got := ""
		for _, l := range first(linkedCalendars(root, candidate.Page{URL: page, Base: page}, false)) {
			got += l.address
		}
		assert.Equal(t, got, want, "%s embeds", element)
	}
}

func first(all []linked, _ bool) []linked { return all }

func TestReaderPanics(t *testing.T) {
	t.Parallel()
	page := &fetch.Page{URL: &url.URL{
		Scheme:   "https",
		User:     url.User("me"),
		Host:     "a.example",
		Path:     "/programme",
		RawQuery: "token=secret",
	}}
	_, err := guarded(t.Context(), page.URL, weightOf(page), func(*budget.Budget) (content, error) {
		none := make([]int, len(page.Body))
		return content{}, errors.New(string(rune(none[len(page.Body)])))
	})
	assert.True(t, errors.Is(err, collect.ErrPanicked) && strings.HasSuffix(err.Error(), ": https://a.example/programme"),
		"got %v", err)
}
