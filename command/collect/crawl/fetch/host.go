package fetch

import (
	"context"
	"errors"
	"maps"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"carillon/command/collect"
)

const (
	// defaultRest is the pause of a host that answers 429 or 503 without a time.
	defaultRest = time.Minute
	// maxWait is the longest pause within a visit. After a longer one the source continues in another visit.
	maxWait = 10 * time.Second
	// maxHosts limits the remembered hosts.
	maxHosts = 4096
)

// host is a Fetcher's own state of a host. The shared state is in Hosts.
type host struct {
	name   string
	used   time.Time // guarded by Fetcher.mu
	manner manner

	// pace is held while waiting for the host's turn, so that the others in this process wait in line. It is a channel so
	// that waiting ends with the context. robots is held while a robots.txt is read or fetched.
	pace, robots chan struct{}
	free         time.Time          // earliest next turn known to this process; guarded by pace
	origins      map[string]*origin // by scheme; guarded by robots
}

// hostName is the same for http and https, because a server has one pace.
func hostName(u *url.URL) string {
	name := strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
	switch port := u.Port(); port {
	case "", "80", "443":
		return name
	default:
		return net.JoinHostPort(name, port)
	}
}

func (f *Fetcher) host(u *url.URL) *host {
	f.mu.Lock()
	defer f.mu.Unlock()
	now, name := time.Now(), hostName(u)
	h, ok := f.hosts[name]
	if !ok {
		if len(f.hosts) >= maxHosts {
			f.forgetHosts()
		}
		h = &host{
			name:    name,
			pace:    make(chan struct{}, 1),
			robots:  make(chan struct{}, 1),
			origins: map[string]*origin{},
		}
		f.hosts[name] = h
	}
	h.used = now
	return h
}

// forgetHosts drops the least recently used eighth of the hosts, whose robots.txt is fetched again. Options.Hosts
// keeps their pace.
func (f *Fetcher) forgetHosts() {
	oldest := slices.SortedFunc(maps.Values(f.hosts), func(a, b *host) int { return a.used.Compare(b.used) })
	for _, old := range oldest[:len(oldest)/8] {
		delete(f.hosts, old.name)
	}
}

// turn waits for the host's turn and a slot, and gets both at once: waiting takes no slot, and the request follows
// immediately. It fails if the turn would come after the context's deadline, or if the host asks for a long pause.
func (f *Fetcher) turn(ctx context.Context, h *host, interval time.Duration) (*slot, error) {
	if err := hold(ctx, h.pace); err != nil {
		return nil, err
	}
	defer func() { <-h.pace }()
	wait := time.Until(h.free)
	for {
		if err := pause(ctx, wait); err != nil {
			return nil, err
		}
		slot, err := f.slots.take(ctx, &h.manner)
		if err != nil {
			return nil, err
		}
		var resting bool
		wait, resting, err = f.options.Hosts.Take(ctx, h.name, interval)
		if err == nil && wait <= 0 {
			h.free = time.Now().Add(interval)
			return slot, nil
		}
		slot.release()
		switch {
		case err != nil:
			return nil, err
		case resting && wait > maxWait:
			return nil, &collect.RestError{For: wait}
		}
	}
}

// pause waits, unless the context would end meanwhile.
func pause(ctx context.Context, wait time.Duration) error {
	if wait <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < wait {
		return collect.ErrTimeout
	}
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(wait):
		return nil
	}
}

// heed records the pause that a host asks for.
func (f *Fetcher) heed(ctx context.Context, h *host, err error) error {
	var status *collect.StatusError
	if !errors.As(err, &status) || status.Code != http.StatusTooManyRequests &&
		status.Code != http.StatusServiceUnavailable {
		return nil
	}
	rest := status.RetryAfter
	if rest == 0 {
		rest = defaultRest
	}
	return f.options.Hosts.Rest(ctx, h.name, rest)
}

// hold takes a place in a channel, or ends with the context.
func hold(ctx context.Context, place chan struct{}) error {
	select {
	case place <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// Outcomes of requests. They are all, so that they may be labels of a metric.
const (
	outcomeOK          = "ok"
	outcomeNotModified = "not_modified"
	outcomeRedirect    = "redirect"
	outcomeClientError = "client_error"
	outcomeLimited     = "rate_limited"
	outcomeServerError = "server_error"
	outcomeTimeout     = "timeout"
	outcomeBlocked     = "blocked_address"
	outcomeUnread      = "unread" // the answer is too large, or unusable
	outcomeConnection  = "connection"
	outcomeStopped     = "stopped" // by the caller
)

// Outcomes returns all outcomes that Options.Answered gets.
func Outcomes() []string {
	return []string{
		outcomeOK, outcomeNotModified, outcomeRedirect, outcomeClientError, outcomeLimited, outcomeServerError,
		outcomeTimeout, outcomeBlocked, outcomeUnread, outcomeConnection, outcomeStopped,
	}
}

// OutcomeOf returns the outcome of a request from its status or its error, which may be one of collect's.
func OutcomeOf(status int, err error) string {
	var answered *collect.StatusError
	switch {
	case errors.As(err, &answered):
		return ofStatus(answered.Code)
	case err == nil:
		return ofStatus(status)
	case errors.Is(err, collect.ErrTimeout), errors.Is(err, context.DeadlineExceeded):
		return outcomeTimeout
	case errors.Is(err, collect.ErrBlockedAddress):
		return outcomeBlocked
	case errors.Is(err, collect.ErrConnection):
		return outcomeConnection
	case errors.Is(err, context.Canceled):
		return outcomeStopped
	}
	return outcomeUnread
}

func ofStatus(code int) string {
	switch {
	case code == http.StatusNotModified:
		return outcomeNotModified
	case code == http.StatusTooManyRequests:
		return outcomeLimited
	case code >= 500:
		return outcomeServerError
	case code >= 400:
		return outcomeClientError
	case code >= 300:
		return outcomeRedirect
	}
	return outcomeOK
}
