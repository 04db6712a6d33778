package httpapi_test

import (
	"fmt"
	"strings"
	"testing"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/query"
)

// An item is scored for its feed, again when the feed is renamed or the item revised, in the current shape alone;
// another organization's feed of the same source scores it for itself. Switched off, nothing is shown.
func TestRelevanceScore(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source, soon := s.site(t), tomorrow()
	s.observe(t, source, bare("An evening of jazz", happening.Scheduled, soon))
	_, theirs := s.Organization(t, "Library")
	feed := func(key, name string) string {
		var made feedView
		s.do(t, request{
			method: "POST",
			path:   feedsPath,
			key:    key,
			body:   fmt.Sprintf(`{"name":%q,"description":"What is on"}`, name),
		}).into(t, 201, &made)
		path := feedsPath + "/" + made.ID
		body := fmt.Sprintf(`{"sourceType":"site","sourceId":"%s"}`, source)
		s.do(t, request{
			method: "POST",
			path:   path + "/sources",
			key:    key,
			body:   body,
		}).into(t, 201, new(any))
		return path
	}
	score := func(key, path string) (id string, score *float64) {
		t.Helper()
		var page struct {
			Items []struct {
				ID             string   `json:"id"`
				RelevanceScore *float64 `json:"relevanceScore"`
			} `json:"items"`
		}
		apitest.Eventually(t, "the item is in the feed", func() bool {
			s.do(t, request{path: path + "/items", key: key}).into(t, 200, &page)
			return len(page.Items) == 1
		})
		return page.Items[0].ID, page.Items[0].RelevanceScore
	}
	expect := func(what, key, path string, relevant bool) {
		t.Helper()
		if _, got := score(key, path); got == nil || *got > 1 || (*got > 0) != relevant {
			t.Errorf("%s: relevanceScore is %v", what, got)
		}
	}
	mine, other := feed("", "Jazz nights"), feed(theirs, "Theatre")
	expect("a feed that it is about", "", mine, true)
	expect("an unrelated one", theirs, other, false)
	s.do(t, request{
		method: "PATCH",
		path:   other,
		key:    theirs,
		body:   `{"description":"Theatre, and jazz"}`,
	}).into(t, 200, new(any))
	expect("described again", theirs, other, true)
	s.do(t, request{method: "PATCH", path: mine, body: `{"name":"Readings"}`}).into(t, 200, new(any))
	expect("renamed", "", mine, false)
	expect("the other one, after that", theirs, other, true)

	id, _ := score("", mine)
	if shown := s.do(t, request{path: mine + "/items/" + id}); !strings.Contains(shown.body, `"relevanceScore":0`) {
		t.Errorf("one item: %s", shown.body)
	}
	if legacy := s.do(t, request{path: "/v0" + mine + "/items"}); !strings.Contains(legacy.body, id) ||
		strings.Contains(legacy.body, "relevance") {
		t.Errorf("legacy shape: %s", legacy.body)
	}
	s.rewire(t, func(d *httpapi.Dependencies) { d.Queries = &query.Queries{Pool: s.Pool, WithoutRelevance: true} })
	for _, path := range []string{mine + "/items", mine + "/items/" + id} {
		if off := s.do(t, request{path: path}); !strings.Contains(off.body, id) || strings.Contains(off.body, "relevance") {
			t.Errorf("switched off: %s", off.body)
		}
	}
}
