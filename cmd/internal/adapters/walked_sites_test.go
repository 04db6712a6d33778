package adapters_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/site"
	"carillon/command/collect/sources/sitemap"
)

// Sitemaps and listings become items: each event once, also if the listing shows it too; unlisted ones are stale, but
// not because a list can't be read.
func TestWalkedSitesToItems(t *testing.T) {
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
			s := walktest.Serve(lasting(t), sourceType, map[string]string{
				tt.path: tt.list("/e/jazz", "/e/quiz", "/about"), "/e/jazz": event("Jazz", "/e/jazz", "A quartet"),
				"/e/quiz": event("Quiz", "/e/quiz", "Ten rounds"),
				"/about":  walktest.Plain("About"), "/e/late": event("Late", "/e/late", "At night"),
			}, func(f *fetch.Fetcher) collect.Collector {
				pages := site.New(f, time.Now)
				if sourceType == sitemap.Type {
					return sitemap.New(f, pages)
				}
				return listing.New(pages)
			})
			w := open(t, map[string]collect.Collector{sourceType: s.Collector})
			source := w.source(command.RegisterSource{Type: sourceType, URL: s.URL + tt.path, Timezone: "Europe/Rome"})
			feed := w.feed()
			w.attach(feed, source, sourceType)
			w.eventuallyItems(feed, "Jazz", "Quiz")
			w.eventuallyState(source, 1, "ok")
			if got := w.happened(); len(got) != 2 {
				t.Errorf("at first %q", got)
			}
			w.expectWalk(source, "")
			s.Set("/e/quiz", event("Quiz", "/e/quiz", "Twelve rounds"))
			w.expectWalk(source, "revised")
			s.Set(tt.path, tt.list("/e/jazz", "/e/late"))
			w.expectWalk(source, "observed went-stale")
			w.eventuallyItems(feed, "Jazz", "Quiz", "Late")

			s.Handle(tt.path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
			w.expectWalk(source, "")
			w.eventuallyState(source, 5, "failing")
			s.Handle(tt.path, nil)
			if sourceType == sitemap.Type {
				s.Set(tt.path, strings.TrimSuffix(tt.list("/e/jazz"), "</urlset>")) // it breaks off
				w.expectWalk(source, "")
			}
			s.Set(tt.path, tt.list("/e/jazz", "/e/late"))
			s.Set("/e/late", "<html>Nothing here any more")
			w.expectWalk(source, "went-stale")
		})
	}
}
