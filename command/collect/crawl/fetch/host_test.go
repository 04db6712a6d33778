package fetch_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// inMemory serves requests without a network, so that time can be faked. It records the time of each request by path.
type inMemory struct {
	handler http.Handler
	start   time.Time

	mu   sync.Mutex
	seen []string
}

func (m *inMemory) RoundTrip(r *http.Request) (*http.Response, error) {
	m.mu.Lock()
	m.seen = append(m.seen, time.Since(m.start).String()+" "+r.URL.String())
	m.mu.Unlock()
	w := httptest.NewRecorder()
	m.handler.ServeHTTP(w, r)
	return w.Result(), nil
}

func (m *inMemory) take() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer func() { m.seen = nil }()
	return strings.Join(m.seen, "\n")
}

func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		mux := http.NewServeMux()
		mux.HandleFunc("slow.example/robots.txt", text("text/plain", "User-agent: *\nCrawl-delay: 10\n"))
		mux.HandleFunc("never.example/robots.txt", text("text/plain", "User-agent: *\nCrawl-delay: 86400\n"))
		mux.HandleFunc("/page", text("text/html", "x"))
		m := &inMemory{handler: mux, start: time.Now()}
		f := newFetcher(t, fetch.Options{Transport: m, Interval: 2 * time.Second})
		for _, u := range []string{
			"http://a.example/page", "http://b.example/page", "http://a.example/page", "http://a.example/page",
			"http://slow.example/page", "http://slow.example/page",
			"http://never.example/page", "http://never.example/page",
		} {
			must.Get(f.Get(t.Context(), u, fetch.Validators{}))(t)
		}
		want := strings.Join([]string{
			"0s http://a.example/robots.txt", "0s http://a.example/page",
			"0s http://b.example/robots.txt", "0s http://b.example/page",
			"2s http://a.example/page", "4s http://a.example/page",
			"4s http://slow.example/robots.txt", "4s http://slow.example/page", "14s http://slow.example/page",
			"14s http://never.example/robots.txt", "14s http://never.example/page", "1m14s http://never.example/page",
		}, "\n")
		assert.Equal(t, m.take(), want, "asked")
	})
}

// All requests to a host share its pace, http and https alike, and a pause that it asks for.
func TestHostsShareState(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		busy := false
		mux := http.NewServeMux()
		mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) {
			if busy {
				w.Header().Set("Retry-After", "600")
				w.WriteHeader(http.StatusTooManyRequests)
			}
		})
		m := &inMemory{handler: mux, start: time.Now()}
		hosts := fetch.NewMemory()
		one := newFetcher(t, fetch.Options{Transport: m, Interval: 2 * time.Second, Hosts: hosts})
		two := newFetcher(t, fetch.Options{Transport: m, Interval: 2 * time.Second, Hosts: hosts})
		get := func(f *fetch.Fetcher, url string) error {
			_, err := f.Get(t.Context(), url, fetch.Validators{})
			return err
		}
		for _, err := range []error{
			get(one, "http://a.example/page"), get(two, "https://A.example./page"), get(two, "http://a.example:80/page"),
			get(one, "http://a.example:8080/page"),
		} {
			must.OK(t, err)
		}
		want := strings.Join([]string{
			"0s http://a.example/robots.txt", "0s http://a.example/page",
			"0s https://A.example./robots.txt", "2s https://A.example./page",
			"2s http://a.example:80/robots.txt", "4s http://a.example:80/page",
			"4s http://a.example:8080/robots.txt", "4s http://a.example:8080/page",
		}, "\n")
		assert.Equal(t, m.take(), want, "asked")

		busy = true
		if err := get(one, "http://a.example/page"); !errors.Is(err, collect.ErrHTTPStatus) {
			t.Fatalf("got %v", err)
		}
		busy = false
		m.take()
		var rest *collect.RestError
		if err := get(two, "https://a.example/page"); !errors.As(err, &rest) || rest.For != 10*time.Minute {
			t.Errorf("while the host rests: %v", err)
		}
		asked := m.take()
		assert.True(t, !strings.Contains(asked, "/page"), "it was asked all the same: %s", asked)
		<-time.After(10*time.Minute - 5*time.Second) // in synctest time
		if err := get(two, "https://a.example/page"); err != nil || time.Since(m.start) < 10*time.Minute {
			t.Errorf("a short rest is not waited for: %v after %s", err, time.Since(m.start))
		}
	})
}

// All processes request a robots.txt once an hour, conditionally.
func TestRobotsAreShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var conditional []string
		mux := http.NewServeMux()
		mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, r *http.Request) {
			conditional = append(conditional, r.Header.Get("If-None-Match"))
			w.Header().Set("ETag", `"r1"`)
			if r.Header.Get("If-None-Match") == `"r1"` {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			_, _ = w.Write([]byte("User-agent: *\nDisallow: /secret"))
		})
		mux.HandleFunc("/page", text("text/html", "x"))
		hosts := fetch.NewMemory()
		for range 3 {
			for range 2 { // a restarted process
				f := newFetcher(t, fetch.Options{Transport: &inMemory{handler: mux}, Hosts: hosts})
				must.Get(f.Get(t.Context(), "http://a.example/page", fetch.Validators{}))(t)
				_, err := f.Get(t.Context(), "http://a.example/secret", fetch.Validators{})
				must.True(t, errors.Is(err, collect.ErrRobotsDisallowed), "the rules are lost: %v", err)
			}
			<-time.After(61 * time.Minute) // in synctest time
		}
		if got, want := strings.Join(conditional, ","), `,"r1","r1"`; got != want {
			t.Errorf("asked with the validators %s, want %s", got, want)
		}
	})
}

func TestRobotsOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		code, rules := http.StatusInternalServerError, ""
		mux := http.NewServeMux()
		mux.HandleFunc("/robots.txt", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			_, _ = w.Write([]byte(rules))
		})
		mux.HandleFunc("/page", text("text/html", "x"))
		m := &inMemory{handler: mux, start: time.Now()}
		f := newFetcher(t, fetch.Options{Transport: m})
		get := func() (asked bool, err error) {
			m.take()
			_, err = f.Get(t.Context(), "http://a.example/page", fetch.Validators{})
			return strings.Contains(m.take(), "robots.txt"), err
		}
		steps := []struct {
			name    string
			wait    time.Duration
			code    int
			rules   string
			asked   bool
			allowed bool
		}{
			{"a server in trouble refuses", 0, 500, "", true, false},
			{"and isn't asked again at once", time.Minute, 200, "", false, false},
			{"but soon", 5 * time.Minute, 200, "User-agent: *\nDisallow: /other", true, true},
			{"rules are kept", 50 * time.Minute, 200, "User-agent: *\nDisallow: /", false, true},
			{"trouble leaves the old ones in force", 20 * time.Minute, 503, "", true, true},
			{"new rules are obeyed", 10 * time.Minute, 200, "User-agent: *\nDisallow: /", true, false},
			{"a missing file allows everything", 2 * time.Hour, 404, "", true, true},
			{"too many requests is trouble too, old rules hold", 2 * time.Hour, 429, "", true, true},
			{"but not for longer than a day", 24 * time.Hour, 503, "", true, false},
			{"a file past the cap counts up to there", 2 * time.Hour, 200, "User-agent: *\nDisallow: /\n" +
				strings.Repeat("# filler\n", 70_000), true, false},
		}
		for _, step := range steps {
			<-time.After(step.wait) // in synctest time
			code, rules = step.code, step.rules
			asked, err := get()
			assert.Equal(t, asked, step.asked, "%s: asked for robots.txt", step.name)
			if allowed := err == nil; allowed != step.allowed || !allowed && !errors.Is(err, collect.ErrRobotsDisallowed) {
				t.Errorf("%s: %v", step.name, err)
			}
		}
	})
}

func TestSitemaps(t *testing.T) {
	t.Parallel()
	server := site(t, map[string]http.HandlerFunc{
		"/robots.txt": text("text/plain", "Sitemap: /one.xml\nSitemap: https://b.example/two.xml\nSitemap: http://%zz"),
	})
	got, err := newFetcher(t, fetch.Options{}).Sitemaps(t.Context(), server.URL+"/a/b")
	assert.True(t, err == nil && len(got) == 2 && got[0] == server.URL+"/one.xml" &&
		got[1] == "https://b.example/two.xml", "got %q, %v", got, err)
	_, err = newFetcher(t, fetch.Options{}).Sitemaps(t.Context(), "http://user:s3cret@%zz/")
	assert.True(t, err != nil && strings.HasPrefix(err.Error(), "fetch url: ") && !strings.Contains(err.Error(), "s3cret"),
		"of a bad address: %v", err)
}
