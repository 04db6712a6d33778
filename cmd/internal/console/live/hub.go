// Package live sends updates to open pages.
//
//	one source of a process ──Publish──▶ Hub ──fan-out in memory──▶ Page, one for each open page ──▶ its browser
//
// A page costs its connection only: reading and rendering happen once for all pages. A source runs only while a page
// is open. Pages that reconnect within a moment get the messages in between; later ones are asked to reload.
package live

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"
)

// Limits.
const (
	MaxPages             = 2000 // of a process
	MaxGroupPages        = 500  // of the sessions of one group, so that an organization can't take those of others
	MaxSessionPages      = 12   // of one session: a person's windows
	maxRecent            = 512  // messages, for pages that reconnect
	maxQueued            = 64   // messages of one page; a slower one is asked to reload
	linger               = 30 * time.Second
	sessionCheckInterval = time.Second // how soon a page ends after its session
)

// ErrTooMany refuses a page.
var ErrTooMany = errors.New("too many pages are open")

// ErrClosed is returned if the process is ending or does not run the hub.
var ErrClosed = errors.New("live updates are not running")

// Message is a published change.
type Message struct {
	Topics []string // pages of any of these topics get it
	Event  string
	Data   string // without line ends
	About  any    // the input of filters
}

// Stale is the event that asks a page to reload.
const Stale = "stale"

// Hub distributes published messages to pages. Its zero value is closed.
type Hub struct {
	mu        sync.Mutex
	open      bool
	epoch     string // of the numbers: a new one starts if messages may be missing
	last      uint64 // last number
	recent    []numbered
	forgotten uint64 // the number of the last message that was dropped from the recent ones
	pages     map[*Page]struct{}
	topics    map[string]*topic
	swept     time.Time      // when unused topics were last removed
	bySession map[string]int // pages by session
	byGroup   map[string]int // pages by group
	wake      chan struct{}  // signalled when a page opens
}

// topic has pages, or may get some within the linger: pages that are being read, or were cut off. Its messages are
// kept meanwhile.
type topic struct {
	pages int
	since uint64    // the number from which on its messages are complete
	until time.Time // when it expires, without pages
}

type numbered struct {
	number uint64
	Message
}

// Work has the dependencies of a Hub.
type Work struct {
	// Source publishes messages from its call of ready on, until its context ends. It starts with the first page, and
	// again after a failure.
	Source func(ctx context.Context, ready func()) error
	// Ended returns which of some sessions have ended.
	Ended func(ctx context.Context, sessions []string) ([]string, error)
	// Failed is called with failures of either.
	Failed func(error)
}

// Run serves pages until the context ends, and then closes all of them.
func (h *Hub) Run(ctx context.Context, work Work) {
	h.mu.Lock()
	h.open, h.pages, h.topics, h.wake = true, map[*Page]struct{}{}, map[string]*topic{}, make(chan struct{}, 1)
	h.bySession, h.byGroup = map[string]int{}, map[string]int{}
	h.newEpoch()
	h.mu.Unlock()
	defer h.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		if h.Pages() > 0 { // otherwise the signal is an earlier one
			h.follow(ctx, work)
		}
	}
}

// follow runs the source while a page is open, and a little longer for pages that reconnect.
func (h *Hub) follow(ctx context.Context, work Work) {
	following, stop := context.WithCancel(ctx)
	var source sync.WaitGroup
	source.Go(func() {
		for following.Err() == nil {
			if err := work.Source(following, h.restarted); err != nil && following.Err() == nil {
				work.Failed(err)
				select {
				case <-following.Done():
				case <-time.After(time.Second):
				}
			}
		}
	})
	defer source.Wait()
	defer stop()
	tick := time.NewTicker(sessionCheckInterval)
	defer tick.Stop()
	left := time.Now()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		sessions := h.sessions()
		if len(sessions) == 0 {
			if time.Since(left) > linger {
				return
			}
			continue
		}
		left = time.Now()
		ended, err := work.Ended(ctx, sessions)
		if err != nil {
			work.Failed(err)
			continue
		}
		for _, session := range ended {
			h.End(session)
		}
	}
}

// restarted starts a new epoch: earlier messages are unknown.
func (h *Hub) restarted() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.newEpoch()
	for p := range h.pages {
		p.behind()
	}
}

func (h *Hub) newEpoch() {
	h.epoch, h.last, h.recent, h.forgotten = uuid.NewString()[:8], 0, nil, 0
	for _, t := range h.topics {
		t.since = 0
	}
}

func (h *Hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.open = false
	for p := range h.pages {
		h.remove(p)
	}
}

// Wanted reports whether some topics have a page, or may get one.
func (h *Hub) Wanted(topics ...string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := time.Now()
	for _, name := range topics {
		if t := h.topics[name]; t != nil && t.lives(now) {
			return true
		}
	}
	return false
}

func (t *topic) lives(now time.Time) bool { return t.pages > 0 || now.Before(t.until) }

// keepTopic keeps a topic for the linger, or longer while it has pages.
func (h *Hub) keepTopic(name string) *topic {
	now := time.Now()
	if now.Sub(h.swept) > linger {
		maps.DeleteFunc(h.topics, func(_ string, t *topic) bool { return !t.lives(now) })
		h.swept = now
	}
	t := h.topics[name]
	if t == nil || !t.lives(now) {
		h.last++ // a number that no page has seen
		t = &topic{since: h.last}
		h.topics[name] = t
	}
	t.until = now.Add(linger)
	return t
}

// Pages returns the number of open pages.
func (h *Hub) Pages() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages)
}

func (h *Hub) sessions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]string, 0, len(h.bySession))
	for session := range h.bySession {
		all = append(all, session)
	}
	return all
}

// End closes all pages of a session.
func (h *Hub) End(session string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for p := range h.pages {
		if p.session == session {
			h.remove(p)
		}
	}
}

// Publish sends a message to the pages of its topics.
func (h *Hub) Publish(m Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return
	}
	h.last++
	n := numbered{h.last, m}
	if len(h.recent) >= maxRecent {
		h.forgotten = h.recent[len(h.recent)-maxRecent/2-1].number
		h.recent = append(h.recent[:0], h.recent[len(h.recent)-maxRecent/2:]...)
	}
	h.recent = append(h.recent, n)
	id := h.id(n.number)
	for p := range h.pages {
		p.offer(id, n.Message)
	}
}

func (h *Hub) id(number uint64) string { return h.epoch + "-" + strconv.FormatUint(number, 10) }

// Mark must be called before the contents of a page are read: a page that opens with it misses no message of some
// topics since then. It is empty if the hub is closed.
func (h *Hub) Mark(topics ...string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return ""
	}
	for _, name := range topics {
		h.keepTopic(name)
	}
	return h.id(h.last)
}

// missed returns the messages after the last one that a page got, or false if that is unknown, or if some are missing
// because a topic had no pages.
func (h *Hub) missed(lastID string, topics []string) ([]numbered, bool) {
	epoch, text, _ := strings.Cut(lastID, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || epoch != h.epoch || number > h.last {
		return nil, false
	}
	for _, name := range topics {
		if number < h.keepTopic(name).since {
			return nil, false
		}
	}
	if number < h.forgotten {
		return nil, false
	}
	next, _ := slices.BinarySearchFunc(h.recent, number+1, func(n numbered, number uint64) int {
		return cmp.Compare(n.number, number)
	})
	return h.recent[next:], true
}
