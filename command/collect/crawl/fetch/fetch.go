// Package fetch fetches pages politely: it obeys robots.txt, paces requests to each host, makes them conditional,
// follows few redirects, and limits size and time.
//
//	Get ──▶ robots.txt ──▶ pace and slot ──▶ request ──▶ redirect? back to robots.txt
//	                                            └────▶ read, up to the cap ──▶ Page ──▶ used
//
// The requests in flight and the bytes of their bodies are limited. A request that waits for its host's pace does not
// count, and slow hosts get a limited share.
//
// The caller's transport decides which addresses may be reached. Each redirect passes it, and robots.txt.
package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"runtime"
	"strings"
	"sync"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/robots"
	"carillon/command/collect/identity"
)

// Options configure a Fetcher. Transport is required; zero values mean the defaults.
type Options struct {
	// Transport connects, and refuses forbidden addresses. It must not follow a proxy.
	Transport http.RoundTripper
	// Blocked reports whether an error is the transport's refusal of an address, which becomes collect.ErrBlockedAddress.
	// nil matches no error.
	Blocked func(error) bool
	// Explain returns the words of any other error of the transport. nil means its own.
	Explain func(error) string
	// UserAgent names the project, see [UserAgent]. Its product token is looked up in robots.txt. Default: UserAgent("",
	// "").
	UserAgent string
	// Interval is the minimum time between two requests to one host. A longer Crawl-delay of up to a minute is honoured.
	// Default 1 s; negative for none.
	Interval time.Duration
	// MaxBytes limits a body, before and after decompression. Default 10 MiB.
	MaxBytes int64
	// Timeout limits one request with its answer, without waiting for the pace. Default 30 s.
	Timeout time.Duration
	// Parallel limits the requests in flight, without those that wait for their host's pace. Their bodies take some 1.5
	// MiB times as much. Default 64.
	Parallel int
	// Room waits until there is room for the contents of a page, before the page is used. It must not wait for a request.
	// Optional.
	Room func(ctx context.Context) error
	// Hosts is shared by all collectors. Default: a separate Memory.
	Hosts Hosts
	// Answered is called after each request, including those for robots.txt, with its outcome, one of [Outcomes], and its
	// duration with the body. Optional.
	Answered func(outcome string, took time.Duration)
}

const (
	defaultInterval = time.Second
	defaultMaxBytes = 10 << 20
	defaultTimeout  = 30 * time.Second
	defaultParallel = 64
	minUsing        = 2 // a slow one doesn't delay the others
	// maxRedirects is also the limit of RFC 9309 for robots.txt.
	maxRedirects  = 5
	maxCrawlDelay = time.Minute
	accept        = "text/html,application/xhtml+xml,text/calendar;q=0.9,application/xml;q=0.9,*/*;q=0.5"
)

// UserAgent returns "Carillon/<version> (+<about>)". about is a URL with information for owners of sites.
func UserAgent(version, about string) string {
	agent := "Carillon"
	if version != "" {
		agent += "/" + version
	}
	if about != "" {
		agent += " (+" + about + ")"
	}
	return agent
}

// Fetcher fetches pages. It is safe for concurrent use.
type Fetcher struct {
	options Options
	slots   *slots
	using   chan struct{} // held while a page is used

	mu    sync.Mutex
	hosts map[string]*host // by name
}

// New returns a Fetcher.
func New(o Options) (*Fetcher, error) {
	if o.Transport == nil {
		return nil, errors.New("fetch: a transport is required")
	}
	if o.Blocked == nil {
		o.Blocked = func(error) bool { return false }
	}
	if o.Explain == nil {
		o.Explain = error.Error
	}
	if o.UserAgent == "" {
		o.UserAgent = UserAgent("", "")
	}
	if o.Interval == 0 {
		o.Interval = defaultInterval
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = defaultMaxBytes
	}
	if o.Timeout <= 0 {
		o.Timeout = defaultTimeout
	}
	if o.Hosts == nil {
		o.Hosts = NewMemory()
	}
	if o.Parallel <= 0 {
		o.Parallel = defaultParallel
	}
	if o.Room == nil {
		o.Room = func(context.Context) error { return nil }
	}
	// Using a page takes a processor: more concurrency takes memory and is not faster.
	using := make(chan struct{}, max(minUsing, runtime.GOMAXPROCS(0)))
	return &Fetcher{
		options: o,
		slots:   newSlots(o.Parallel),
		using:   using,
		hosts:   map[string]*host{},
	}, nil
}

// Ask is a request for a page.
type Ask struct {
	URL string
	// Known are the validators of an earlier answer. They make the request conditional, so that the Page may be
	// NotModified.
	Known Validators
	// Stay forbids redirects to another site.
	Stay bool
	// Use is called with the page while its body counts as in flight; afterwards Page.Body is empty. It must not fetch
	// anything, because it could wait for itself. It is called at most once, and not for a page that is NotModified.
	// Optional.
	Use func(page *Page)
	// Read is called with the decompressed body while it arrives, and Page.Body stays empty. After Limit bytes,
	// compressed or not, the body fails with collect.ErrTooLarge. Optional.
	Read  func(page *Page, body io.Reader) error
	Limit int64
}

// Get fetches a page, following redirects, see [Fetcher.Do].
func (f *Fetcher) Get(ctx context.Context, rawURL string, known Validators) (*Page, error) {
	return f.Do(ctx, Ask{URL: rawURL, Known: known})
}

// Do fetches a page, following redirects.
//
// It fails with a [*collect.FetchError] that wraps one of collect's errors or what Read fails with, or with the
// context's error.
func (f *Fetcher) Do(ctx context.Context, ask Ask) (*Page, error) {
	u, err := parse(ask.URL)
	if err != nil {
		return nil, &collect.FetchError{Place: place(u), Err: err}
	}
	want := extent{limit: f.options.MaxBytes}
	if ask.Read != nil {
		want = extent{limit: ask.Limit, read: ask.Read}
	}
	for range maxRedirects + 1 {
		page, next, err := f.hop(ctx, u, &ask, want)
		switch {
		case err != nil:
			return nil, f.failure(ctx, u, errors.Join(err, f.heed(ctx, f.host(u), err)))
		case next == nil:
			return page, nil
		}
		u = next
	}
	return nil, &collect.FetchError{Place: place(u), Err: collect.ErrTooManyRedirects}
}

// hop makes one request after waiting for its turn. A redirect returns the next URL and no page.
func (f *Fetcher) hop(ctx context.Context, u *url.URL, ask *Ask, want extent) (*Page, *url.URL, error) {
	h := f.host(u)
	rules, err := f.rules(ctx, h, u)
	if err != nil {
		return nil, nil, err
	}
	if !rules.Allowed(f.options.UserAgent, u.RequestURI()) {
		return nil, nil, collect.ErrRobotsDisallowed
	}
	slot, err := f.turn(ctx, h, f.interval(rules))
	if err != nil {
		return nil, nil, err
	}
	defer slot.release()
	page, next, err := f.request(ctx, h, slot, u, ask.Known, want)
	switch {
	case err != nil:
		return nil, nil, err
	case next != nil && ask.Stay && !identity.SameSite(u, next):
		return nil, nil, fmt.Errorf("%w: it redirects to another site", collect.ErrBadURL)
	case next == nil && ask.Use != nil && !page.NotModified:
		err = f.use(ctx, page, ask.Use)
	}
	return page, next, err
}

// use calls use when there is room for the contents of the page.
func (f *Fetcher) use(ctx context.Context, page *Page, use func(*Page)) error {
	if err := hold(ctx, f.using); err != nil {
		return err
	}
	defer func() { <-f.using }()
	if err := f.options.Room(ctx); err != nil {
		return err
	}
	use(page)
	page.Body = nil
	return nil
}

// Sitemaps returns the sitemap URLs in the robots.txt of the page's host.
func (f *Fetcher) Sitemaps(ctx context.Context, rawURL string) ([]string, error) {
	u, err := parse(rawURL)
	if err != nil {
		return nil, &collect.FetchError{Place: place(u), Err: err}
	}
	rules, err := f.rules(ctx, f.host(u), u)
	if err != nil {
		return nil, f.failure(ctx, u, err)
	}
	var found []string
	for _, s := range rules.Sitemaps() {
		if ref, err := u.Parse(s); err == nil {
			found = append(found, ref.String())
		}
	}
	return found, nil
}

func (f *Fetcher) interval(rules *robots.Rules) time.Duration {
	return max(f.options.Interval, min(rules.CrawlDelay(f.options.UserAgent), maxCrawlDelay))
}

// request makes one request. A redirect returns the next URL and no page.
func (f *Fetcher) request(ctx context.Context, h *host, slot *slot, u *url.URL, known Validators,
	want extent) (page *Page, next *url.URL, err error) {
	ctx, timeout, cancel := limitTime(ctx, f.options.Timeout, collect.ErrTimeout)
	defer cancel()
	began := time.Now()
	defer func() {
		took := time.Since(began)
		h.manner.answered(took)
		if page == nil && next == nil && err == nil { // the transport or the reader panics
			err = collect.ErrPanicked
		}
		if f.options.Answered != nil {
			f.options.Answered(outcomeOf(page, next, err), took)
		}
	}()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), http.NoBody)
	if err != nil {
		return nil, nil, fmt.Errorf("%w: %w", collect.ErrBadURL, err)
	}
	req.Header.Set("User-Agent", f.options.UserAgent)
	req.Header.Set("Accept", accept)
	// Set here, so that no transport decompresses behind the size limit.
	req.Header.Set("Accept-Encoding", "gzip")
	conditional := known.apply(req)

	resp, err := f.options.Transport.RoundTrip(req)
	if err != nil {
		return nil, nil, f.connectionError(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()

	switch code := resp.StatusCode; {
	case code == http.StatusNotModified && conditional:
		return &Page{
			URL:         u,
			NotModified: true,
			Header:      resp.Header,
			Validators:  known.updated(u, resp.Header),
		}, nil, nil
	case isRedirect(code) && resp.Header.Get("Location") != "":
		next, err := parseRef(u, resp.Header.Get("Location"))
		return nil, next, err
	case code < 200 || code > 299:
		return nil, nil, &collect.StatusError{Code: code, RetryAfter: retryAfter(resp.Header)}
	}
	if want.read != nil {
		page, err := f.stream(ctx, u, resp, want)
		return page, nil, err
	}
	body, err := readBody(resp, want, func(by int64) error { return slot.grow(ctx, by, timeout) })
	if err != nil {
		return nil, nil, f.connectionError(ctx, err)
	}
	return newPage(u, resp.Header, body), nil, nil
}

// stream passes a body on while it arrives.
func (f *Fetcher) stream(ctx context.Context, u *url.URL, resp *http.Response, want extent) (*Page, error) {
	page := newPage(u, resp.Header, nil)
	body, err := bodyOf(resp, want.limit)
	if err != nil {
		return nil, f.connectionError(ctx, err)
	}
	coming := &Watched{Body: body}
	if err := want.read(page, coming); err != nil {
		if coming.Err != nil {
			return nil, f.connectionError(ctx, coming.Err)
		}
		return nil, err
	}
	return page, nil
}

func outcomeOf(page *Page, next *url.URL, err error) string {
	switch {
	case err == nil && next != nil:
		return outcomeRedirect
	case err == nil && page.NotModified:
		return outcomeNotModified
	}
	return OutcomeOf(http.StatusOK, err)
}

func isRedirect(code int) bool {
	switch code {
	case http.StatusMovedPermanently, http.StatusFound, http.StatusSeeOther,
		http.StatusTemporaryRedirect, http.StatusPermanentRedirect:
		return true
	}
	return false
}

// connectionError translates an error of the transport, or of reading the body.
func (f *Fetcher) connectionError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, collect.ErrTooLarge), errors.Is(err, collect.ErrUnsupportedContent):
		return err
	case f.options.Blocked(err):
		return fmt.Errorf("%w: %w", collect.ErrBlockedAddress, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w: %s", collect.ErrConnection, f.options.Explain(err))
	}
}

// failure wraps err, unless the caller has cancelled.
func (f *Fetcher) failure(ctx context.Context, u *url.URL, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return &collect.FetchError{Place: place(u), Err: err}
}

// parse reads a URL and drops its fragment.
func parse(rawURL string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimSpace(rawURL))
	if err != nil {
		// The error of url contains the whole URL with its secrets.
		return nil, fmt.Errorf("%w: malformed", collect.ErrBadURL)
	}
	return check(u)
}

func parseRef(base *url.URL, ref string) (*url.URL, error) {
	u, err := base.Parse(strings.TrimSpace(ref))
	if err != nil {
		return nil, fmt.Errorf("%w: malformed redirect", collect.ErrBadURL)
	}
	return check(u)
}

// Web returns the address by which a subscribed calendar is fetched: webcal: stands for http:, webcals: for https:.
// Others are returned unchanged.
func Web(u *url.URL) *url.URL {
	scheme, ok := map[string]string{"webcal": "http", "webcals": "https"}[strings.ToLower(u.Scheme)]
	if !ok {
		return u
	}
	web := *u
	web.Scheme = scheme
	return &web
}

func check(u *url.URL) (*url.URL, error) {
	u = Web(u)
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return u, fmt.Errorf("%w: scheme is neither http nor https", collect.ErrBadURL)
	case u.Hostname() == "":
		return u, fmt.Errorf("%w: no host", collect.ErrBadURL)
	case u.User != nil:
		return u, fmt.Errorf("%w: user name or password in url", collect.ErrBadURL)
	}
	u.Fragment, u.RawFragment = "", ""
	return u, nil
}

// place returns the displayable part of a URL.
func place(u *url.URL) string {
	if u == nil {
		return "url"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
