package fetch

import (
	"context"
	"sync"
	"time"
)

// Hosts stores the state of hosts that all requests share: the pace, pauses that a host asked for, and its robots.txt.
// [Memory] serves one process; collectors in several processes share one in a database.
type Hosts interface {
	// Take takes the host's turn if it is free; the next turn is free after the interval. If it is not free, wait is the
	// time until it may be, and resting reports that the host asked for that pause.
	Take(ctx context.Context, host string, interval time.Duration) (wait time.Duration, resting bool, err error)
	// Rest blocks turns at the host for a while. It never shortens an earlier rest.
	Rest(ctx context.Context, host string, wait time.Duration) error
	// Robots returns the answer that KeepRobots stored last for an origin ("https://example.org"); known is false without
	// one.
	Robots(ctx context.Context, origin string) (kept Robots, known bool, err error)
	// KeepRobots stores an answer.
	KeepRobots(ctx context.Context, origin string, answer Robots) error
}

// Robots is the answer of a host to a request for its robots.txt.
type Robots struct {
	Body       []byte // empty if there is no such file, which allows everything
	Validators Validators
	Age        time.Duration // since the answer; ignored by KeepRobots
}

// Memory implements Hosts for one process. It forgets hosts after a day without a request.
type Memory struct {
	mu     sync.Mutex
	hosts  map[string]*remembered
	robots map[string]answered
	swept  time.Time
}

var _ Hosts = (*Memory)(nil)

type remembered struct{ next, rest time.Time }

type answered struct {
	Robots

	at time.Time
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{hosts: map[string]*remembered{}, robots: map[string]answered{}, swept: time.Now()}
}

// Take implements Hosts.
func (m *Memory) Take(_ context.Context, host string, interval time.Duration) (wait time.Duration, resting bool,
	err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	h, now := m.host(host), time.Now()
	switch {
	case now.Before(h.rest):
		return h.rest.Sub(now), true, nil
	case now.Before(h.next):
		return h.next.Sub(now), false, nil
	}
	h.next = now.Add(interval)
	return 0, false, nil
}

// Rest implements Hosts.
func (m *Memory) Rest(_ context.Context, host string, wait time.Duration) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.host(host)
	if until := time.Now().Add(wait); h.rest.Before(until) {
		h.rest = until
	}
	return nil
}

// Robots implements Hosts.
func (m *Memory) Robots(_ context.Context, origin string) (kept Robots, known bool, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, known := m.robots[origin]
	a.Age = time.Since(a.at)
	return a.Robots, known, nil
}

// KeepRobots implements Hosts.
func (m *Memory) KeepRobots(_ context.Context, origin string, answer Robots) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.robots[origin] = answered{Robots: answer, at: time.Now()}
	return nil
}

func (m *Memory) host(name string) *remembered {
	m.sweep(time.Now())
	h := m.hosts[name]
	if h == nil {
		h = &remembered{}
		m.hosts[name] = h
	}
	return h
}

// sweep forgets expired entries from time to time.
func (m *Memory) sweep(now time.Time) {
	if now.Sub(m.swept) < robotsFresh {
		return
	}
	m.swept = now
	for name, h := range m.hosts {
		if h.next.Before(now) && h.rest.Before(now) {
			delete(m.hosts, name)
		}
	}
	for origin, a := range m.robots {
		if now.Sub(a.at) > robotsKept {
			delete(m.robots, origin)
		}
	}
}
