package visiting_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/site"
	"carillon/command/collect/sources/sitemap"
)

// Each event of a sitemap or a listing is observed once, also if the listing shows it too. Unlisted ones are stale, but
// not because a list can't be read.
func TestWalkedSites(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(72 * time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	shown := func(title, path, more string) string {
		return fmt.Sprintf(`<script type="application/ld+json">{"@type":"Event","name":%q,"url":%q,"startDate":%q,`+
			`"location":"Hall"%s}</script>`, title, path, start, more)
	}
	event := func(title, path, description string) string {
		return "<html><title>" + title + "</title><h1>" + title + "</h1>" +
			shown(title, path, fmt.Sprintf(`,"description":%q`, description))
	}
	for sourceType, tt := range map[string]struct {
		path string
		list func(paths ...string) string
	}{
		sitemap.Type: {"/sitemap.xml", func(paths ...string) string {
			return "<urlset><url><loc>{}" + strings.Join(paths, "</loc></url><url><loc>{}") + "</loc></url></urlset>"
		}},
		listing.Type: {"/programme", func(paths ...string) string {
			return "<html><title>Programme</title>" + shown("Jazz", "/e/jazz", "") + `<a href="` +
				strings.Join(paths, `">x</a><a href="`) + `">x</a>`
		}},
	} {
		t.Run(sourceType, func(t *testing.T) {
			t.Parallel()
			pages := walktest.Serve(t, sourceType, map[string]string{
				tt.path: tt.list("/e/jazz", "/e/quiz", "/about"), "/e/jazz": event("Jazz", "/e/jazz", "A quartet"),
				"/e/quiz": event("Quiz", "/e/quiz", "Ten rounds"),
				"/about":  walktest.Plain("About"), "/e/late": event("Late", "/e/late", "At night"),
			}, func(f *fetch.Fetcher) collect.Collector {
				read := site.New(f, time.Now)
				if sourceType == sitemap.Type {
					return sitemap.New(f, read)
				}
				return listing.New(read)
			})
			s := begin(t, pages.Source(tt.path), pages.Collector)
			s.expect("at first", "observed observed")
			s.expect("the same again", "")
			pages.Set("/e/quiz", event("Quiz", "/e/quiz", "Twelve rounds"))
			s.expect("a page has changed", "revised")
			pages.Handle("/e/quiz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
			s.expect("a page is for members only", "")
			pages.Handle("/e/quiz", nil)
			pages.Set(tt.path, tt.list("/e/jazz", "/e/late"))
			s.expect("another list", "observed went-stale")
			pages.Handle(tt.path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
			s.expect("the list fails", "")
			if _, failed := s.last().(source.CollectionFailed); !failed {
				t.Errorf("it ended with %+v", s.last())
			}
			pages.Handle(tt.path, nil)
			if sourceType == sitemap.Type {
				pages.Set(tt.path, strings.TrimSuffix(tt.list("/e/jazz"), "</urlset>"))
				s.expect("the list breaks off", "")
			}
			pages.Set(tt.path, tt.list("/e/jazz", "/e/late"))
			pages.Set("/e/late", "<html>Nothing here any more")
			s.expect("a page shows nothing", "went-stale")
		})
	}
}
