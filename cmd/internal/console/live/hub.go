// Package live lets pages that are open follow what happens.
//
//	one source of a process ──Publish──▶ Hub ──fan-out in memory──▶ Page, one for each page that is open ──▶ its browser
//
// What a page costs is its connection: what is read and rendered, is so once for all. A source works only while somebody
// looks. Pages that were cut off for a moment get what they missed; after longer they are told to load anew.
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

// Bounds.
const (
	MostPages      = 2000 // of a process
	MostOfGroup    = 500  // pages of the sessions of one group: an organization can't take those of others
	MostOfSession  = 12   // pages of one session: a person's windows
	remembered     = 512  // messages, for pages that come back
	waiting        = 64   // messages of one page: one that is slower is told to load anew
	linger         = 30 * time.Second
	sessionsLookup = time.Second // how soon a page ends after its session
)

// ErrTooMany refuses a page.
var ErrTooMany = errors.New("too many pages are open")

// ErrClosed says that nothing is told here: the process ends, or does not run the hub.
var ErrClosed = errors.New("no live parts")

// Message is one thing that happened.
type Message struct {
	Topics []string // what it is about: pages of any of these get it
	Event  string
	Data   string // without line ends
	About  any    // what filters of pages go by
}

// Stale is the event that tells a page to load anew.
const Stale = "stale"

// Hub hands out what is published. Its zero value is closed.
type Hub struct {
	mu        sync.Mutex
	open      bool
	epoch     string // of the numbers: they begin anew where something may have been missed
	last      uint64 // number
	recent    []numbered
	forgotten uint64 // the number of the last message that is not among the recent ones any more
	pages     map[*Page]struct{}
	topics    map[string]*topic
	swept     time.Time      // when topics that nobody follows were last forgotten
	of        map[string]int // pages of each session
	groups    map[string]int // and of each group
	wake      chan struct{}  // signalled when a page comes
}

// topic is what pages follow, or may come to follow within the linger: those that are being read, or were cut off. What
// happens to it meanwhile is told, so that it is not missing among the recent ones.
type topic struct {
	pages int
	since uint64    // the number from which on all that happens to it is told
	until time.Time // when it is forgotten, without pages
}

type numbered struct {
	number uint64
	Message
}

// Work is what a Hub needs of others.
type Work struct {
	// Source publishes what happens from when it calls ready on, until its context ends. It is started when the first page
	// comes, and again when it fails.
	Source func(ctx context.Context, ready func()) error
	// Ended tells which of some sessions have ended.
	Ended func(ctx context.Context, sessions []string) ([]string, error)
	// Failed hears of failures of either.
	Failed func(error)
}

// Run serves pages until the context ends, which ends them all.
func (h *Hub) Run(ctx context.Context, work Work) {
	h.mu.Lock()
	h.open, h.pages, h.topics, h.wake = true, map[*Page]struct{}{}, map[string]*topic{}, make(chan struct{}, 1)
	h.of, h.groups = map[string]int{}, map[string]int{}
	h.renew()
	h.mu.Unlock()
	defer h.close()
	for {
		select {
		case <-ctx.Done():
			return
		case <-h.wake:
		}
		if h.Pages() > 0 { // else it is the call of one that came while others were there
			h.follow(ctx, work)
		}
	}
}

// follow runs the source as long as somebody looks, and a little longer: who was cut off comes back.
func (h *Hub) follow(ctx context.Context, work Work) {
	following, stop := context.WithCancel(ctx)
	var source sync.WaitGroup
	source.Go(func() {
		for following.Err() == nil {
			if err := work.Source(following, h.renewed); err != nil && following.Err() == nil {
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
	tick := time.NewTicker(sessionsLookup)
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

// renewed begins to count anew: what happened before is not known.
func (h *Hub) renewed() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.renew()
	for p := range h.pages {
		p.behind()
	}
}

func (h *Hub) renew() {
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

// Wanted tells whether a page follows one of some topics, or may come to.
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

// expect keeps a topic for the linger, or longer where it has pages.
func (h *Hub) expect(name string) *topic {
	now := time.Now()
	if now.Sub(h.swept) > linger {
		maps.DeleteFunc(h.topics, func(_ string, t *topic) bool { return !t.lives(now) })
		h.swept = now
	}
	t := h.topics[name]
	if t == nil || !t.lives(now) {
		h.last++ // which nobody has, who came before
		t = &topic{since: h.last}
		h.topics[name] = t
	}
	t.until = now.Add(linger)
	return t
}

// Pages is how many are open.
func (h *Hub) Pages() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.pages)
}

func (h *Hub) sessions() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	all := make([]string, 0, len(h.of))
	for session := range h.of {
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

// Publish tells the pages that follow one of its topics.
func (h *Hub) Publish(m Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return
	}
	h.last++
	n := numbered{h.last, m}
	if len(h.recent) >= remembered {
		h.forgotten = h.recent[len(h.recent)-remembered/2-1].number
		h.recent = append(h.recent[:0], h.recent[len(h.recent)-remembered/2:]...)
	}
	h.recent = append(h.recent, n)
	id := h.id(n.number)
	for p := range h.pages {
		p.offer(id, n.Message)
	}
}

func (h *Hub) id(number uint64) string { return h.epoch + "-" + strconv.FormatUint(number, 10) }

// Mark is called before what a page shows is read: the page that asks for what comes after it misses nothing of some topics
// between its reading and its Open. It is empty where nothing is told.
func (h *Hub) Mark(topics ...string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.open {
		return ""
	}
	for _, name := range topics {
		h.expect(name)
	}
	return h.id(h.last)
}

// missed gives what came after the message that a page got last, and false where that is not known any more, or some of it
// was not told because nobody followed a topic then.
func (h *Hub) missed(lastID string, topics []string) ([]numbered, bool) {
	epoch, text, _ := strings.Cut(lastID, "-")
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil || epoch != h.epoch || number > h.last {
		return nil, false
	}
	for _, name := range topics {
		if number < h.expect(name).since {
			return nil, false
		}
	}
	if number < h.forgotten {
		return nil, false
	}
	next, _ := slices.BinarySearchFunc(h.recent, number+1, func(n numbered, number uint64) int { return cmp.Compare(n.number, number) })
	return h.recent[next:], true
}
