package live

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"
)

const (
	// The interval of keep-alives on an idle connection.
	beat      = 15 * time.Second
	writeTime = 20 * time.Second // within which a browser must accept a message
)

// Page is an open page.
type Page struct {
	hub     *Hub
	session string
	group   string
	topics  map[string]struct{}
	filter  func(Message) string
	queue   chan sent
	closed  chan struct{}
	stale   bool // whether it has missed a message, and must be told when there is room
}

type sent struct{ id, event, data string }

// Asked is the request of a page.
type Asked struct {
	Session string
	Group   string // of sessions, limited to MaxGroupPages. Optional.
	Topics  []string
	// Filter returns the event of a message for this page, or "" to drop it. nil keeps the message's own.
	Filter func(Message) string
	LastID string // last message, if the page reconnects
}

// Open adds a page. The caller must close it.
func (h *Hub) Open(asked Asked) (*Page, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		return nil, ErrClosed
	case len(h.pages) >= MaxPages || h.bySession[asked.Session] >= MaxSessionPages ||
		h.byGroup[asked.Group] >= MaxGroupPages:
		return nil, ErrTooMany
	}
	p := &Page{
		hub:     h,
		session: asked.Session,
		group:   asked.Group,
		topics:  map[string]struct{}{},
		filter:  asked.Filter,
		queue:   make(chan sent, maxQueued),
		closed:  make(chan struct{}),
	}
	for _, name := range asked.Topics {
		p.topics[name] = struct{}{}
	}
	if asked.LastID != "" {
		missed, known := h.missed(asked.LastID, asked.Topics)
		if !known {
			p.behind()
		}
		for _, n := range missed {
			p.offer(h.id(n.number), n.Message)
		}
	}
	for name := range p.topics {
		h.keepTopic(name).pages++
	}
	h.pages[p] = struct{}{}
	h.bySession[asked.Session]++
	if p.group != "" {
		h.byGroup[p.group]++
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	// Without messages, the page still needs a position.
	p.send(sent{id: h.id(h.last), event: "open"})
	return p, nil
}

// Close removes the page.
func (p *Page) Close() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.hub.remove(p)
}

// remove removes a page. The hub's lock must be held.
func (h *Hub) remove(p *Page) {
	if _, is := h.pages[p]; !is {
		return
	}
	delete(h.pages, p)
	for name := range p.topics {
		h.keepTopic(name).pages-- // it may reconnect
	}
	if h.bySession[p.session]--; h.bySession[p.session] == 0 {
		delete(h.bySession, p.session)
	}
	if h.byGroup[p.group]--; h.byGroup[p.group] <= 0 {
		delete(h.byGroup, p.group)
	}
	close(p.closed)
}

// offer sends a message to the page, unless the filter drops it.
func (p *Page) offer(id string, m Message) {
	if !slices.ContainsFunc(m.Topics, func(topic string) bool { _, is := p.topics[topic]; return is }) {
		return
	}
	event := m.Event
	if p.filter != nil {
		event = p.filter(m)
	}
	if event != "" {
		p.send(sent{id: id, event: event, data: m.Data})
	}
}

// behind marks the page as stale.
func (p *Page) behind() {
	p.stale = true
	p.send(sent{})
}

// send queues a message, or marks the page as stale if the queue is full.
func (p *Page) send(s sent) {
	if p.stale {
		s = sent{event: Stale, id: s.id}
	}
	select {
	case p.queue <- s:
		p.stale = false
	default:
		p.stale = true
	}
}

// Serve writes messages to a browser until it disconnects, its session ends, or the hub does.
func (p *Page) Serve(ctx context.Context, w http.ResponseWriter) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // disables the buffering of proxies
	control := http.NewResponseController(w)
	tick := time.NewTicker(beat)
	defer tick.Stop()
	write := func(text string) error {
		if err := control.SetWriteDeadline(time.Now().Add(writeTime)); err != nil && !errors.Is(err, http.ErrNotSupported) {
			return err
		}
		if _, err := io.WriteString(w, text); err != nil {
			return err
		}
		return control.Flush()
	}
	if err := write("retry: 2000\n\n"); err != nil {
		return err
	}
	for {
		text := ": still here\n\n"
		select {
		case <-ctx.Done():
			return nil
		case <-p.closed:
			return nil
		case s := <-p.queue:
			text = s.text()
		case <-tick.C:
		}
		if err := write(text); err != nil {
			return err
		}
		if len(p.queue) == 0 {
			p.resendStale()
		}
	}
}

// resendStale sends the stale event that had no room before.
func (p *Page) resendStale() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	if p.stale {
		p.behind()
	}
}

func (s sent) text() string {
	text := ""
	if s.id != "" {
		text = "id: " + s.id + "\n"
	}
	return text + fmt.Sprintf("event: %s\ndata: %s\n\n", s.event, s.data)
}
