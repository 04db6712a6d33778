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
	beat      = 15 * time.Second // how often a connection on which nothing happens is used, so that nobody takes it for dead
	writeTime = 20 * time.Second // within which a browser takes what it is sent
)

// Page is a page that is open.
type Page struct {
	hub     *Hub
	session string
	group   string
	topics  map[string]struct{}
	filter  func(Message) string
	queue   chan sent
	closed  chan struct{}
	stale   bool // it has missed something, and is told so when there is room
}

type sent struct{ id, event, data string }

// Asked is what a page wants.
type Asked struct {
	Session string
	Group   string // of sessions, which may have MostOfGroup pages. Optional.
	Topics  []string
	// Filter gives the event under which a message is told to this page; "": it is not. Nil: its own, always.
	Filter func(Message) string
	LastID string // of the message that it got last, where it comes back
}

// Open adds a page. It is to be closed.
func (h *Hub) Open(asked Asked) (*Page, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case !h.open:
		return nil, ErrClosed
	case len(h.pages) >= MostPages || h.of[asked.Session] >= MostOfSession || h.groups[asked.Group] >= MostOfGroup:
		return nil, ErrTooMany
	}
	p := &Page{
		hub: h, session: asked.Session, group: asked.Group, topics: map[string]struct{}{}, filter: asked.Filter,
		queue: make(chan sent, waiting), closed: make(chan struct{}),
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
		h.expect(name).pages++
	}
	h.pages[p] = struct{}{}
	h.of[asked.Session]++
	if p.group != "" {
		h.groups[p.group]++
	}
	select {
	case h.wake <- struct{}{}:
	default:
	}
	// So that a page which gets nothing knows from where on, too.
	p.send(sent{id: h.id(h.last), event: "open"})
	return p, nil
}

// Close removes the page.
func (p *Page) Close() {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	p.hub.remove(p)
}

// remove is called under the hub's lock.
func (h *Hub) remove(p *Page) {
	if _, is := h.pages[p]; !is {
		return
	}
	delete(h.pages, p)
	for name := range p.topics {
		h.expect(name).pages-- // it may come back
	}
	if h.of[p.session]--; h.of[p.session] == 0 {
		delete(h.of, p.session)
	}
	if h.groups[p.group]--; h.groups[p.group] <= 0 {
		delete(h.groups, p.group)
	}
	close(p.closed)
}

// offer gives the page a message, if it wants it.
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

// behind notes that the page has missed something.
func (p *Page) behind() {
	p.stale = true
	p.send(sent{})
}

// send queues a message, or tells that there is more than the page can take.
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

// Serve writes what comes to a browser until it goes away, its session ends, or the hub does.
func (p *Page) Serve(ctx context.Context, w http.ResponseWriter) error {
	header := w.Header()
	header.Set("Content-Type", "text/event-stream")
	header.Set("X-Accel-Buffering", "no") // proxies that hold answers back would make it pointless
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
			p.retell()
		}
	}
}

// retell says that something was missed for which there was no room.
func (p *Page) retell() {
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
