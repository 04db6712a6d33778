package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/robots"
)

const (
	// robotsFresh is short enough that a site's owner sees a change obeyed. After it, the file is asked for again with
	// its validators.
	robotsFresh = time.Hour
	// robotsKept is how long the last answer holds while the host can't say what it allows now (RFC 9309, section 2.4).
	robotsKept = 24 * time.Hour
	// robotsRetry is when a robots.txt that couldn't be had is asked for again.
	robotsRetry = 5 * time.Minute
)

// origin holds the parsed robots.txt of one scheme and host.
type origin struct {
	rules   *robots.Rules
	refused error // why there are no rules
	expires time.Time
}

// rules gives the robots.txt that holds for a page: the one this process has read, else the one that any process has
// asked for, else it is asked for, by one of this process at a time.
func (f *Fetcher) rules(ctx context.Context, h *host, u *url.URL) (*robots.Rules, error) {
	if err := hold(ctx, h.robots); err != nil {
		return nil, err
	}
	defer func() { <-h.robots }()
	o := h.origins[u.Scheme]
	if o == nil {
		o = &origin{}
		h.origins[u.Scheme] = o
	}
	if time.Now().Before(o.expires) {
		return o.rules, o.refused
	}
	name := u.Scheme + "://" + u.Host
	kept, known, err := f.options.Hosts.Robots(ctx, name)
	if err != nil {
		return nil, err
	}
	if known && kept.Age < robotsFresh {
		o.hold(robots.Parse(kept.Body), robotsFresh-kept.Age)
		return o.rules, nil
	}
	answer, err := f.fetchRobots(ctx, h, u, kept)
	switch {
	case err == nil:
		if err := f.options.Hosts.KeepRobots(ctx, name, answer); err != nil {
			return nil, err
		}
		o.hold(robots.Parse(answer.Body), robotsFresh)
	case !errors.Is(err, collect.ErrRobotsDisallowed):
		// The host can't be reached, so neither can the page: say that, and ask again next time.
		return nil, err
	case known && kept.Age < robotsKept:
		o.hold(robots.Parse(kept.Body), robotsRetry)
	default:
		*o = origin{refused: err, expires: time.Now().Add(robotsRetry)}
	}
	return o.rules, o.refused
}

func (o *origin) hold(rules *robots.Rules, wait time.Duration) {
	*o = origin{rules: rules, expires: time.Now().Add(wait)}
}

// fetchRobots follows RFC 9309, section 2.3.1: a robots.txt that isn't there allows everything, a server in trouble
// nothing. The answer that was kept makes the request conditional.
func (f *Fetcher) fetchRobots(ctx context.Context, h *host, page *url.URL, kept Robots) (Robots, error) {
	slot, err := f.slots.take(ctx, &h.manner)
	if err != nil {
		return Robots{}, err
	}
	defer slot.release()
	u := &url.URL{Scheme: page.Scheme, Host: page.Host, Path: "/robots.txt"}
	for range maxRedirects + 1 {
		answer, next, err := f.request(ctx, h, slot, u, kept.Validators, extent{limit: robots.MaxBytes, cut: true})
		switch {
		case err != nil && allows(err):
			return Robots{}, nil // as the RFC reads it
		case isTrouble(err):
			return Robots{}, fmt.Errorf("%w: robots.txt: %w", collect.ErrRobotsDisallowed, err)
		case err != nil:
			return Robots{}, err
		case next == nil && answer.NotModified:
			return Robots{Body: kept.Body, Validators: answer.Validators}, nil
		case next == nil:
			return Robots{Body: answer.Body, Validators: answer.Validators}, nil
		}
		u = next
	}
	return Robots{}, nil
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
