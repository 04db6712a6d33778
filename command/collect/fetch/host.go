package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"golang.org/x/time/rate"

	"carillon/command/collect"
	"carillon/command/collect/robots"
)

const (
	// robotsFresh is within the 24 hours of RFC 9309, and short enough that a
	// site's owner sees a change obeyed.
	robotsFresh = time.Hour
	// robotsRetry is when a robots.txt that couldn't be had is asked for again.
	robotsRetry = 5 * time.Minute
	// Hosts that were idle are forgotten once there are many.
	manyHosts = 1024
	hostIdle  = 2 * robotsFresh
)

// host is what is remembered of one scheme and host.
type host struct {
	limiter *rate.Limiter
	used    time.Time // guarded by Fetcher.mu

	// turn is held by whoever looks at or fetches the robots.txt. It is a
	// channel so that waiting for it ends with the context.
	turn    chan struct{}
	rules   *robots.Rules
	refused error // why there are no rules
	expires time.Time
}

func (f *Fetcher) host(u *url.URL) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	now := time.Now()
	key := u.Scheme + "://" + u.Host
	h, ok := f.hosts[key]
	if !ok {
		if len(f.hosts) >= manyHosts {
			for k, old := range f.hosts {
				if now.Sub(old.used) > hostIdle {
					delete(f.hosts, k)
				}
			}
		}
		h = &host{limiter: rate.NewLimiter(rate.Inf, 1), turn: make(chan struct{}, 1)}
		f.hosts[key] = h
	}
	h.used = now
	return h
}

// wait keeps the interval between requests to the host.
func (h *host) wait(ctx context.Context, interval time.Duration) error {
	limit := rate.Inf
	if interval > 0 {
		limit = rate.Every(interval)
	}
	if h.limiter.Limit() != limit {
		h.limiter.SetLimit(limit)
	}
	if err := h.limiter.Wait(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		// The turn would come after the context's deadline.
		return fmt.Errorf("%w: waiting for the host's pace: %w", collect.ErrTimeout, err)
	}
	return nil
}

// rules gives the host's robots.txt, fetched at most once at a time and kept
// for a while.
func (f *Fetcher) rules(ctx context.Context, h *host, u *url.URL) (*robots.Rules, error) {
	select {
	case h.turn <- struct{}{}:
		defer func() { <-h.turn }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if time.Now().Before(h.expires) {
		return h.rules, h.refused
	}
	rules, err := f.fetchRules(ctx, u)
	switch {
	case err == nil:
		h.rules, h.refused, h.expires = rules, nil, time.Now().Add(robotsFresh)
	case !errors.Is(err, collect.ErrRobotsDisallowed):
		// The host can't be reached, so neither can the page: say that, and
		// ask again next time.
		return nil, err
	case h.rules != nil:
		h.expires = time.Now().Add(robotsRetry) // the old rules still hold
	default:
		h.refused, h.expires = err, time.Now().Add(robotsRetry)
	}
	return h.rules, h.refused
}

// fetchRules follows RFC 9309, section 2.3.1: a robots.txt that isn't there
// allows everything, a server in trouble nothing.
func (f *Fetcher) fetchRules(ctx context.Context, page *url.URL) (*robots.Rules, error) {
	u := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/robots.txt"}
	for range maxRedirects + 1 {
		answer, next, err := f.request(ctx, u, Validators{}, extent{limit: robots.MaxBytes, cut: true})
		switch {
		case err != nil && allows(err):
			return &robots.Rules{}, nil // as the RFC reads it
		case isTrouble(err):
			return nil, fmt.Errorf("%w: robots.txt: %w", collect.ErrRobotsDisallowed, err)
		case err != nil:
			return nil, err
		case next == nil:
			return robots.Parse(answer.Body), nil
		}
		u = next
	}
	return &robots.Rules{}, nil
}

// isTrouble: the server answers, but can't say what it allows.
func isTrouble(err error) bool {
	var status *collect.StatusError
	return errors.As(err, &status) && (status.Code >= 500 || status.Code == http.StatusTooManyRequests)
}

// allows: there is no robots.txt, or none that can be read.
func allows(err error) bool {
	return errors.Is(err, collect.ErrHTTPStatus) && !isTrouble(err) ||
		errors.Is(err, collect.ErrBadURL) || errors.Is(err, collect.ErrUnsupportedContent)
}
