// Package fetch gets pages politely: it asks robots.txt first, keeps a pace for each host, asks only for what changed,
// follows few redirects, and stops at a size and a time cap.
//
//	Get ──▶ robots.txt ──▶ pace and slot ──▶ request ──▶ redirect? back to robots.txt
//	                                            └────▶ read, up to the cap ──▶ Page ──▶ used
//
// So many requests are under way at one time, and so many bytes of their bodies. One that waits for its host's pace
// takes no part of that, and hosts that are slow take a share at most.
//
// Which addresses may be reached is not decided here but by the transport that the caller supplies; each redirect goes
// through it, and through robots.txt.
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
	"carillon/command/collect/identity"
	"carillon/command/collect/robots"
)

// Options says how to fetch. Transport is required; zero values give the defaults named.
type Options struct {
	// Transport makes the connections and refuses addresses that must not be reached. It must not follow a proxy.
	Transport http.RoundTripper
	// Blocked recognises the transport's refusal of an address, which then is reported as collect.ErrBlockedAddress.
	// Default: no error is one.
	Blocked func(error) bool
	// UserAgent names the project, see [UserAgent]. Its product token is what robots.txt is asked about. Default:
	// UserAgent("", "").
	UserAgent string
	// Interval is the least time between two requests to one host. A longer Crawl-delay is honoured, up to a minute.
	// Default 1 s; negative for none.
	Interval time.Duration
	// MaxBytes caps a body, before and after decompression. Default 10 MiB.
	MaxBytes int64
	// Timeout caps one request and its answer; waiting for the pace doesn't count. Default 30 s.
	Timeout time.Duration
	// Parallel is how many requests are under way at one time, those that wait for their host's pace not included.
	// The bodies that are under way take some 1.5 MiB times as much. Default 64.
	Parallel int
	// Room, if set, waits until there is room for what a page shows; a page is used only then. It must not wait for a
	// request.
	Room func(ctx context.Context) error
	// Hosts is shared by all who collect. Default: a Memory of its own.
	Hosts Hosts
	// Answered, if set, is told of each request, those for robots.txt too, how it ended, one of [Outcomes], and how long
	// it took, its body included.
	Answered func(outcome string, took time.Duration)
}

const (
	defaultInterval = time.Second
	defaultMaxBytes = 10 << 20
	defaultTimeout  = 30 * time.Second
	defaultParallel = 64
	minUsing        = 2 // one that takes long doesn't hold up the others
	// maxRedirects is also what RFC 9309 asks for robots.txt.
	maxRedirects  = 5
	maxCrawlDelay = time.Minute
	accept        = "text/html,application/xhtml+xml,text/calendar;q=0.9,application/xml;q=0.9,*/*;q=0.5"
)

// UserAgent is "Carillon/<version> (+<about>)"; about is a URL where the owner of a site learns who is asking.
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

// Fetcher gets pages. It is safe for concurrent use.
type Fetcher struct {
	options Options
	slots   *slots
	using   chan struct{} // held while a page is used

	mu    sync.Mutex
	hosts map[string]*host // by name
}

// New makes a Fetcher.
func New(o Options) (*Fetcher, error) {
	if o.Transport == nil {
		return nil, errors.New("fetch: a transport is required")
	}
	if o.Blocked == nil {
		o.Blocked = func(error) bool { return false }
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
	// Using a page is work for a processor: more of it at one time takes memory and is no faster.
	using := make(chan struct{}, max(minUsing, runtime.GOMAXPROCS(0)))
	return &Fetcher{
		options: o,
		slots:   newSlots(o.Parallel),
		using:   using,
		hosts:   map[string]*host{},
	}, nil
}

// Ask says what to get, and how.
type Ask struct {
	URL string
	// Known are the validators of an earlier answer. They make the request conditional; the answer then may be a Page
	// that is NotModified.
	Known Validators
	// Stay: a redirect that leads to another site is not followed.
	Stay bool
	// Use, if set, is handed the page while its body counts among those that are under way; afterwards Page.Body is
	// empty. It must not fetch anything, as what is under way would wait for itself. It is called at most once, and not
	// for a page that is NotModified.
	Use func(page *Page)
	// Read, if set, is handed the body while it comes, decompressed, and Page.Body stays empty. Behind Limit bytes, of
	// what is sent or of what it comes to, the body fails with collect.ErrTooLarge.
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

// hop makes one request, once it may be made. A redirect gives the next URL and no page.
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

// use has a page used once there is room for what it shows.
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

// Sitemaps lists the sitemap URLs that the robots.txt of the page's host names.
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

// request makes one request. A redirect gives the next URL and no page.
func (f *Fetcher) request(ctx context.Context, h *host, slot *slot, u *url.URL, known Validators,
	want extent) (page *Page, next *url.URL, err error) {
	ctx, timeout, cancel := limitTime(ctx, f.options.Timeout, collect.ErrTimeout)
	defer cancel()
	began := time.Now()
	defer func() {
		took := time.Since(began)
		h.manner.answered(took)
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
	// Set here so that no transport decompresses behind the size cap.
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

// stream hands a body over while it comes.
func (f *Fetcher) stream(ctx context.Context, u *url.URL, resp *http.Response, want extent) (*Page, error) {
	page := newPage(u, resp.Header, nil)
	body, err := bodyOf(resp, want.limit)
	if err != nil {
		return nil, f.connectionError(ctx, err)
	}
	coming := &watched{r: body}
	if err := want.read(page, coming); err != nil {
		if coming.err != nil {
			return nil, f.connectionError(ctx, coming.err)
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

// connectionError gives an error of the transport, or of reading the body, its meaning.
func (f *Fetcher) connectionError(ctx context.Context, err error) error {
	switch {
	case errors.Is(err, collect.ErrTooLarge), errors.Is(err, collect.ErrUnsupportedContent):
		return err
	case f.options.Blocked(err):
		return fmt.Errorf("%w: %w", collect.ErrBlockedAddress, err)
	case ctx.Err() != nil:
		return context.Cause(ctx)
	default:
		return fmt.Errorf("%w: %w", collect.ErrConnection, err)
	}
}

// failure wraps err, unless it is the caller who has given up.
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
		// url's own error repeats the whole URL, secrets and all.
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

// Web gives the address by which a calendar that is to be subscribed to is fetched: webcal: stands for http:, webcals:
// for https:. Any other is given back as it is.
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

// place is what of a URL may be shown.
func place(u *url.URL) string {
	if u == nil {
		return "url"
	}
	return (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
}
