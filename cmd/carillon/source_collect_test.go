package main

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/query"
)

// A waiting operator sees the progress of a collection, and its result; the list of sources shows both as well.
func TestSourceCollectWaits(t *testing.T) {
	t.Parallel()
	s := open(t)
	held, goOn := make(chan struct{}), make(chan struct{})
	hold := sync.OnceFunc(func() { close(held); <-goOn })
	start := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/sitemap.xml":
			w.Header().Set("Content-Type", "application/xml")
			_, _ = fmt.Fprintf(w, `<urlset><url><loc>%[1]s/e/1</loc></url><url><loc>%[1]s/e/2</loc></url></urlset>`,
				server.URL)
		case "/e/1", "/e/2":
			if r.URL.Path == "/e/2" {
				hold()
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(
				w, `<script type="application/ld+json">{"@type":"Event","name":"Event %s","startDate":%q}</script>`,
				r.URL.Path, start)
		default:
			http.NotFound(w, r)
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(server.CloseClientConnections)

	source := s.ok("source", "add", "sitemap", server.URL+"/sitemap.xml")
	var out, errors apitest.Buffer
	waited := make(chan int, 1)
	go func() {
		args := append([]string{"source", "collect", source, "--wait"}, s.server...)
		waited <- run(t.Context(), args, terminal{in: strings.NewReader(""), out: &out, err: &errors})
	}()
	select {
	case <-held:
	case <-time.After(2 * time.Minute):
		t.Fatal("the second page is not asked for")
	}
	if list := s.ok("source", "list"); !regexp.MustCompile(source + ` .*\bcollecting 2/3\b`).MatchString(list) {
		t.Errorf("source list:\n%s", list)
	}
	if list := s.ok("source", "list", "--json"); !strings.Contains(strings.Join(strings.Fields(list), ""),
		`"requested":false,"progress":{"asked":2,"linked":3}`) {
		t.Errorf("source list --json:\n%s", list)
	}
	apitest.Eventually(t, "it shows the progress", func() bool { return strings.Contains(errors.String(), "\n") })
	select {
	case code := <-waited:
		t.Fatalf("it does not wait: exit %d\n%s%s", code, &out, &errors)
	default:
	}
	close(goOn)
	if code := <-waited; code != 0 || !strings.Contains(out.String(), "2 events on show") {
		t.Errorf("exit %d\n%s%s", code, &out, &errors)
	}
	var after []query.Source // of this site: those of other tests may be walked through
	if err := json.Unmarshal([]byte(s.ok("source", "list", "--q", server.URL, "--json")), &after); err != nil ||
		len(after) != 1 || after[0].Asked != nil {
		t.Errorf("source list --json after the walk: %+v, %v", after, err)
	}

	gone := s.ok("source", "add", "site", server.URL+"/gone")
	if code, out, errors := s.run("source", "collect", gone, "--wait"); code != 1 || out != "" ||
		!strings.Contains(errors, "the source is failing: http_status") {
		t.Errorf("a page that is gone gives exit %d\n%s%s", code, out, errors)
	}
}

func TestHowFarAWalkIs(t *testing.T) {
	t.Parallel()
	of := func(asked, linked int) query.SourceProgress {
		return query.SourceProgress{Asked: &asked, Linked: &linked}
	}
	for want, s := range map[string]query.Source{
		"waiting for its turn":                   {},
		"[                        ] 0 of 1 page": {SourceProgress: of(0, 0)},
		"[############            ] 1 of 2 pages, the host rests": {
			SourceProgress: of(1, 2), Message: "the host rests",
		},
		"[########################] 7 of 7 pages": {SourceProgress: of(7, 5)},
	} {
		if got := walkText(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
