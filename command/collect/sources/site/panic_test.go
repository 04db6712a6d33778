package site

import (
	"errors"
	"net/url"
	"strings"
	"testing"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/fetch"
)

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
	if !errors.Is(err, collect.ErrPanicked) || !strings.HasSuffix(err.Error(), ": https://a.example/programme") {
		t.Errorf("got %v", err)
	}
}
