package fetch_test

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/text/encoding/htmlindex"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// site serves handlers on loopback; other paths are a 404.
func site(t *testing.T, handlers map[string]http.HandlerFunc) *httptest.Server {
	t.Helper()
	mux := http.NewServeMux()
	for path, handler := range handlers {
		mux.HandleFunc(path, handler)
	}
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server
}

func text(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", contentType)
		_, _ = io.WriteString(w, body)
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

func newFetcher(t *testing.T, o fetch.Options) *fetch.Fetcher {
	t.Helper()
	if o.Transport == nil {
		transport := &http.Transport{}
		t.Cleanup(transport.CloseIdleConnections)
		o.Transport = transport
	}
	if o.Interval == 0 {
		o.Interval = -1
	}
	f := must.Get(fetch.New(o))(t)
	return f
}

func TestGet(t *testing.T) {
	t.Parallel()
	var agent, encoding atomic.Value
	server := site(t, map[string]http.HandlerFunc{
		"/page": func(w http.ResponseWriter, r *http.Request) {
			agent.Store(r.UserAgent())
			encoding.Store(r.Header.Get("Accept-Encoding"))
			w.Header().Set("Content-Type", "Text/HTML; charset=utf-8")
			w.Header().Set("ETag", `"1"`)
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, "hello")
			_ = z.Close()
		},
		"/old": redirect("/page#part"),
	})
	f := newFetcher(t, fetch.Options{UserAgent: fetch.UserAgent("1.2", "https://carillon.example/about")})
	page := must.Get(f.Get(t.Context(), server.URL+"/old", fetch.Validators{}))(t)
	assert.True(t, string(page.Body) == "hello" && page.MediaType == "text/html" &&
		page.URL.String() == server.URL+"/page", "got %q, %q at %s", page.Body, page.MediaType, page.URL)
	if want := (fetch.Validators{URL: server.URL + "/page", ETag: `"1"`}); page.Validators != want {
		t.Errorf("validators %+v, want %+v", page.Validators, want)
	}
	assert.True(t, agent.Load() == "Carillon/1.2 (+https://carillon.example/about)" && encoding.Load() == "gzip",
		"asked as %q, accepting %q", agent.Load(), encoding.Load())
}

func TestNotModified(t *testing.T) {
	t.Parallel()
	const modified = "Fri, 20 Nov 2026 10:00:00 GMT"
	server := site(t, map[string]http.HandlerFunc{
		"/page": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("ETag", `"1"`)
			if r.Header.Get("If-None-Match") == `"1"` && r.Header.Get("If-Modified-Since") == modified {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			w.Header().Set("Last-Modified", modified)
			_, _ = io.WriteString(w, "hello")
		},
		"/moved":  redirect("/page"),
		"/broken": status(http.StatusNotModified),
	})
	f := newFetcher(t, fetch.Options{})
	first, err := f.Get(t.Context(), server.URL+"/moved", fetch.Validators{})
	must.True(t, err == nil && !first.NotModified, "first: %+v, %v", first, err)
	second, err := f.Get(t.Context(), server.URL+"/moved", first.Validators)
	assert.True(t, err == nil && second.NotModified && second.Validators == first.Validators,
		"second: %+v, %v", second, err)
	assert.Is(t, assert.Err(f.Get(t.Context(), server.URL+"/broken", first.Validators)), collect.ErrHTTPStatus,
		"a 304 to an unconditional request")
}

var errRefused = errors.New("refused by the guard")

func TestFailures(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hang := func(w http.ResponseWriter, r *http.Request) {
		if http.NewResponseController(w).Flush() != nil {
			return
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	bomb := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = z.Write(make([]byte, 1<<20))
		_ = z.Close()
	}
	server := site(t, map[string]http.HandlerFunc{
		"/robots.txt": text("text/plain", "User-agent: *\nDisallow: /private"),
		"/private":    text("text/html", "x"),
		"/to-private": redirect("/private"),
		"/loop":       redirect("/loop"),
		"/to-file":    redirect("file:///etc/passwd"),
		"/gone":       status(http.StatusGone),
		"/choices":    status(http.StatusMultipleChoices),
		"/large":      text("text/html", strings.Repeat("x", 2000)),
		"/bomb":       bomb,
		"/brotli": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "br")
			_, _ = io.WriteString(w, "x")
		},
		"/hang":    hang,
		"/guarded": text("text/html", "x"),
	})
	t.Cleanup(func() { close(release) })
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	patient := newFetcher(t, fetch.Options{
		MaxBytes: 1000,
		Transport: roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/guarded" {
				return nil, fmt.Errorf("dial: %w", errRefused)
			}
			return transport.RoundTrip(r)
		}),
		Blocked: func(err error) bool { return errors.Is(err, errRefused) },
	})
	hasty := newFetcher(t, fetch.Options{Timeout: 100 * time.Millisecond})

	tests := []struct {
		url  string
		want error
	}{
		{server.URL + "/private?token=s3cret", collect.ErrRobotsDisallowed},
		{server.URL + "/to-private?token=s3cret", collect.ErrRobotsDisallowed},
		{server.URL + "/loop", collect.ErrTooManyRedirects},
		{server.URL + "/to-file", collect.ErrBadURL},
		{server.URL + "/gone?token=s3cret", collect.ErrHTTPStatus},
		{server.URL + "/choices", collect.ErrHTTPStatus},
		{server.URL + "/large", collect.ErrTooLarge},
		{server.URL + "/bomb", collect.ErrTooLarge},
		{server.URL + "/brotli", collect.ErrUnsupportedContent},
		{server.URL + "/hang", collect.ErrTimeout},
		{server.URL + "/guarded", collect.ErrBlockedAddress},
		{"http://127.0.0.1:1/x?token=s3cret", collect.ErrConnection},
		{"ftp://a.example/x", collect.ErrBadURL},
		{"http:///x", collect.ErrBadURL},
		{"http://user:s3cret@a.example/x", collect.ErrBadURL},
		{"http://a.example/%zz?token=s3cret", collect.ErrBadURL},
	}
	for _, tt := range tests {
		t.Run(tt.url[strings.LastIndex(tt.url, "/"):], func(t *testing.T) {
			t.Parallel()
			f := patient
			if errors.Is(tt.want, collect.ErrTimeout) {
				f = hasty
			}
			_, err := f.Get(t.Context(), tt.url, fetch.Validators{})
			var failure *collect.FetchError
			must.True(t, errors.Is(err, tt.want) && errors.As(err, &failure), "got %v, want %v", err, tt.want)
			assert.True(t, !strings.Contains(err.Error(), "s3cret"), "the error shows a secret: %v", err)
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func TestCancelledByTheCaller(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	server := site(t, map[string]http.HandlerFunc{
		"/page": func(_ http.ResponseWriter, r *http.Request) {
			cancel()
			<-r.Context().Done()
		},
	})
	_, err := newFetcher(t, fetch.Options{}).Get(ctx, server.URL+"/page", fetch.Validators{})
	assert.True(t, errors.Is(err, context.Canceled) && !errors.Is(err, collect.ErrTimeout), "got %v", err)
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	server := site(t, map[string]http.HandlerFunc{
		"/seconds": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "120")
			w.WriteHeader(http.StatusTooManyRequests)
		},
		"/date": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))
			w.WriteHeader(http.StatusServiceUnavailable)
		},
		"/never": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "99999999")
			w.WriteHeader(http.StatusServiceUnavailable)
		},
	})
	for path, want := range map[string][2]time.Duration{
		"/seconds": {2 * time.Minute, 2 * time.Minute},
		"/date":    {59 * time.Minute, time.Hour},
		"/never":   {24 * time.Hour, 24 * time.Hour},
	} {
		_, err := newFetcher(t, fetch.Options{}).Get(t.Context(), server.URL+path, fetch.Validators{})
		var got *collect.StatusError
		assert.True(t, errors.As(err, &got) && got.RetryAfter >= want[0] && got.RetryAfter <= want[1],
			"%s: %v, %+v", path, err, got)
	}
}

// Stay forbids redirects to another site, and requests for its robots.txt.
func TestStay(t *testing.T) {
	t.Parallel()
	var asked atomic.Int32
	other := site(t, map[string]http.HandlerFunc{"/": func(http.ResponseWriter, *http.Request) { asked.Add(1) }})
	server := site(t, map[string]http.HandlerFunc{
		"/page": text("text/plain", "hello"), "/here": redirect("/page"), "/there": redirect(other.URL + "/page"),
		"/private": redirect("http://10.0.0.1/"),
	})
	f := newFetcher(t, fetch.Options{})
	page, err := f.Do(t.Context(), fetch.Ask{URL: server.URL + "/here", Stay: true})
	assert.True(t, err == nil && string(page.Body) == "hello", "a redirect within the site gives %v, %v", page, err)
	for _, path := range []string{"/there", "/private"} {
		assert.Is(t, assert.Err(f.Do(t.Context(), fetch.Ask{URL: server.URL + path, Stay: true})), collect.ErrBadURL,
			"%s", path)
	}
	assert.Equal(t, asked.Load(), 0, "the other site was asked … times")
}

// A body can be read while it arrives, within a separate limit.
func TestRead(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	release := make(chan struct{})
	server := site(t, map[string]http.HandlerFunc{
		"/two": func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, "first ")
			if http.NewResponseController(w).Flush() != nil {
				return
			}
			select {
			case <-release: // the reader has the first part
			case <-r.Context().Done():
			}
			_, _ = io.WriteString(w, "second")
		},
		"/long": func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", limit+1)) },
		"/bomb": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			_, _ = io.WriteString(z, strings.Repeat("x", limit+1))
			_ = z.Close()
		},
		"/broken": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = io.WriteString(w, "x")
		},
		"/gone": status(http.StatusGone),
	})
	f := newFetcher(t, fetch.Options{MaxBytes: 10})
	read := func(path string, take func(io.Reader) error) (*fetch.Page, error) {
		return f.Do(t.Context(), fetch.Ask{URL: server.URL + path, Limit: limit,
			Read: func(_ *fetch.Page, body io.Reader) error {
				return take(body)
			}})
	}
	all := func(body io.Reader) error { _, err := io.Copy(io.Discard, body); return err }

	var got []byte
	page, err := read("/two", func(body io.Reader) error {
		first := make([]byte, 6)
		if _, err := io.ReadFull(body, first); err != nil {
			return err
		}
		close(release)
		rest, err := io.ReadAll(body)
		got = slices.Concat(first, rest)
		return err
	})
	assert.True(t, err == nil && string(got) == "first second" && page.Body == nil && page.URL.Path == "/two",
		"got %q, %+v, %v", got, page, err)
	for path, want := range map[string]error{
		"/long": collect.ErrTooLarge, "/bomb": collect.ErrTooLarge, "/broken": collect.ErrConnection,
		"/gone": collect.ErrHTTPStatus,
	} {
		assert.Is(t, assert.Err(read(path, all)), want, "%s", path)
	}
	// The reader's result counts: it may stop early, or fail.
	must.Get(read("/long", func(body io.Reader) error { _ = all(body); return nil }))(t)
	assert.Is(t, assert.Err(read("/long", func(io.Reader) error { return errRefused })), errRefused,
		"a reader that refuses")
}

// A charset is that of the byte order mark, the header or the head; else it is guessed. A few broken bytes do not
// change it, and a named one stays.
func TestTextWithBrokenBytes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ contentType, body, want string }{
		{"text/html; charset=iso-8859-1", "Caf\xe9", "Café"},
		{"text/html", "<meta charset=shift_jis>\x89\xb9\x8a\x79", "<meta charset=shift_jis>音楽"},
		{"text/html; charset=iso-8859-1", "\xef\xbb\xbfCafé", "Café"},
		{"text/html", strings.Repeat(" ", 2000) + "Café", strings.Repeat(" ", 2000) + "Café"}, // beyond what is sniffed
		{"", "Caf\xe9", "Café"},
		{"text/calendar", "Fête \xc3\r\n", "Fête \ufffd\r\n"},
		{"", "Fête, café, über \xff\xfe", "Fête, café, über \ufffd"},
		{"text/html", "Привет \xd0", "Привет \ufffd"},
		{"text/html", "日本語\x80", "日本語\ufffd"},
		{"text/plain", "F\xeate de la musique", "Fête de la musique"},
		{"text/plain", "\x84Spa\xdf\x93 und \x84Fu\xdf\x93", "„Spaß“ und „Fuß“"},
		{"text/html; charset=iso-8859-1", "F\xc3\xaate \xe9", "FÃªte é"},
		{"text/html", `<meta charset="windows-1252">FÃ` + "\xc3\xaa\xe9", `<meta charset="windows-1252">FÃƒÃªé`},
		{"text/html; charset=utf-8", "F\xeate", "F\ufffdte"},
	} {
		page := &fetch.Page{Header: http.Header{"Content-Type": {tt.contentType}}, Body: []byte(tt.body)}
		assert.Equal(t, must.Get(page.Text())(t), tt.want, "%s %q", tt.contentType, tt.body)
	}
}

// TestTextWithoutCharset reads calendars in encodings that they don't name.
func TestTextWithoutCharset(t *testing.T) {
	t.Parallel()
	const before, after = "BEGIN:VCALENDAR\nBEGIN:VEVENT\nSUMMARY:", "\nEND:VEVENT\nEND:VCALENDAR\n"
	for name, words := range map[string]string{
		"windows-1251": "Концерт духового оркестра",
		"koi8-r":       "Концерт в Доме культуры",
		"windows-1253": "Συναυλία στο θέατρο",
		"windows-1255": "קונצרט בהיכל התרבות",
		"windows-1256": "حفلة موسيقية في المسرح",
		"windows-874":  "คอนเสิร์ตปีใหม่",
		"gbk":          "新年音乐会",
		"big5":         "新年音樂會 國家戲劇院",
		"euc-kr":       "봄 음악회 시민회관",
		"euc-jp":       "春のコンサート 市民会館",
		"shift_jis":    "春のコンサート 市民会館",
		"windows-1252": "Fête à l’hôtel",
		"utf-8":        "Концерт",
	} {
		e := must.Get(htmlindex.Get(name))(t)
		body := must.Get(e.NewEncoder().String(before + words + after))(t)
		page := fetch.Page{Header: http.Header{}, Body: []byte(body)}
		assert.Equal(t, must.Get(page.Text())(t), before+words+after, "%s", name)
	}
}
