package fetch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/crawl/robots"
)

const (
	// robotsFresh is the age at which a robots.txt is requested again with its validators. It is short, so that owners of
	// sites see a change obeyed.
	robotsFresh = time.Hour
	// robotsKept is the time in which the last answer holds while the host fails to answer (RFC 9309, section 2.4).
	robotsKept = 24 * time.Hour
	// robotsRetry is the time after which an unavailable robots.txt is requested again.
	robotsRetry = 5 * time.Minute
)

// origin holds the parsed robots.txt of one scheme and host.
type origin struct {
	rules   *robots.Rules
	refused error // reason for missing rules
	expires time.Time
}

// rules returns the robots.txt for a page: the one that this process has read, else the stored one, else a fetched
// one. A process fetches one at a time.
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
		// The host can't be reached, so the page can't either: report that, and retry next time.
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

// fetchRobots follows RFC 9309, section 2.3.1: a missing robots.txt allows everything, a failing server nothing. The
// stored answer makes the request conditional.
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
			return Robots{}, nil // as the RFC interprets it
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

// isTrouble reports whether the server fails to answer with its rules.
func isTrouble(err error) bool {
	var status *collect.StatusError
	return errors.As(err, &status) && (status.Code >= 500 || status.Code == http.StatusTooManyRequests)
}

// allows reports whether the error means that there is no readable robots.txt.
func allows(err error) bool {
	return errors.Is(err, collect.ErrHTTPStatus) && !isTrouble(err) ||
		errors.Is(err, collect.ErrBadURL) || errors.Is(err, collect.ErrUnsupportedContent)
}
