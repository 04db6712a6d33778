package fetch

import (
	"context"
	"sync"
	"time"
)

// Hosts remembers what must hold for a host whoever asks it: the pace of requests, how long it wants to be left alone,
// and its robots.txt. [Memory] serves one process; collectors in several processes share one in a database.
type Hosts interface {
	// Take takes the host's turn if it is free now; nobody gets the next one before the interval has passed. Where it
	// is not free, wait says when to ask again, and resting that the host itself wants to be left alone so long.
	Take(ctx context.Context, host string, interval time.Duration) (wait time.Duration, resting bool, err error)
	// Rest gives nobody a turn at the host for a while. It never shortens an earlier rest.
	Rest(ctx context.Context, host string, wait time.Duration) error
	// Robots gives the answer that KeepRobots kept last for an origin ("https://example.org"); known is false where
	// there is none.
	Robots(ctx context.Context, origin string) (kept Robots, known bool, err error)
	// KeepRobots keeps an answer.
	KeepRobots(ctx context.Context, origin string, answer Robots) error
}

// Robots is what a host answered when it was asked for its robots.txt.
type Robots struct {
	Body       []byte // empty where there is no such file, which allows everything
	Validators Validators
	Age        time.Duration // since it was answered; not looked at by KeepRobots
}

// Memory is Hosts for one process. It forgets hosts that nobody has asked for a day.
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

// NewMemory makes an empty one.
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

// sweep forgets, now and then, what holds for nobody any more.
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
