package adapters_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/command"
	"carillon/command/collect"
	"carillon/projections/sources"
	"carillon/query"
)

// booklet is a source of some pages. Each waits until the test lets it be read.
type booklet struct {
	pages int
	asked chan string   // the addresses, as they are asked for
	read  chan struct{} // a page is read for each

	mu    sync.Mutex
	times map[string]int // by address
}

func newBooklet(pages int) *booklet {
	return &booklet{
		pages: pages,
		asked: make(chan string, 100),
		read:  make(chan struct{}, 100),
		times: map[string]int{},
	}
}

// Start implements collect.Collector.
func (*booklet) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.Handle, List: true}}
}

// Read implements collect.Collector.
func (b *booklet) Read(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	b.mu.Lock()
	b.times[page.Address]++
	b.mu.Unlock()
	b.asked <- page.Address
	select {
	case <-b.read:
	case <-ctx.Done():
		return collect.Page{}, ctx.Err()
	}
	read := collect.Page{Requests: 1}
	for i := 1; page.List && i < b.pages; i++ {
		read.Links = append(read.Links, collect.Link{Address: fmt.Sprintf("%s/%d", source.Handle, i)})
	}
	return read, nil
}

// of counts how often pages of a source were asked for, and how many of them.
func (b *booklet) of(handle string) (requests, pages int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for address, times := range b.times {
		if strings.HasPrefix(address, handle) {
			requests, pages = requests+times, pages+1
		}
	}
	return requests, pages
}

func (w *world) pause(source uuid.UUID, reason string) {
	w.t.Helper()
	changed, err := w.commands.PauseSource(w.t.Context(), operator, command.PauseSource{Source: source, Reason: reason})
	w.await(changed.Position, err, sources.ReadModel.Name)
}

func (w *world) resume(source uuid.UUID) {
	w.t.Helper()
	changed, err := w.commands.ResumeSource(w.t.Context(), operator, command.ResumeSource{Source: source})
	w.await(changed.Position, err, sources.ReadModel.Name)
}

func (w *world) listed(source uuid.UUID) query.Source {
	w.t.Helper()
	found, err := w.queries.Source(w.t.Context(), source)
	if err != nil {
		w.t.Fatalf("source %s: %v", source, err)
	}
	return found
}

var operator = command.Caller{Actor: "operator"}

// A visit that is in progress ends at its next page, no process begins another one, and once the source is resumed its
// walk continues.
func TestPauseEndsVisitAtNextPage(t *testing.T) {
	t.Parallel()
	b := newBooklet(5)
	collectors := map[string]collect.Collector{"facebook": b}
	w := open(t, collectors)
	w.monitor(w.store, collectors) // a second process
	source, other := w.account(), w.account()
	handle := w.listed(source).Handle
	w.collect(source)
	<-b.asked
	b.read <- struct{}{}
	<-b.asked // its second page is being read
	w.pause(source, "the owner objects")
	b.read <- struct{}{}
	w.eventually("the visit ends", func() bool {
		var under bool
		err := w.pool.QueryRow(t.Context(), "SELECT holder IS NOT NULL FROM carillon.source_walks WHERE source_id = $1",
			source).Scan(&under)
		return err == nil && !under
	})
	for range b.pages * 2 { // others are visited meanwhile
		b.read <- struct{}{}
	}
	for visit := 1; visit <= 2; visit++ {
		w.collect(other)
		w.eventually("the other source is walked", func() bool {
			return len(w.recorded("source.collection-completed.v1")) == visit
		})
	}
	if requests, _ := b.of(handle); requests != 2 {
		t.Errorf("%d pages of the paused source were asked for, want 2", requests)
	}
	if got := w.listed(source); got.State != "paused" || got.PausedFor != "the owner objects" ||
		got.PausedBy != "operator" || got.DueAt != nil {
		t.Errorf("paused: %+v", got)
	}

	for range b.pages {
		b.read <- struct{}{}
	}
	w.resume(source)
	w.eventuallyState(source, 1, "ok")
	if requests, pages := b.of(handle); requests != b.pages || pages != b.pages {
		t.Errorf("%d requests for %d pages, want %d for as many", requests, pages, b.pages)
	}
}

// A wish for a source that is paused is refused and says why. Pausing and resuming twice, at one time, is doing it
// once.
func TestPausingTwice(t *testing.T) {
	t.Parallel()
	p := &place{}
	w := open(t, map[string]collect.Collector{"facebook": p})
	source := w.account()
	atOnce := func(what func() error) {
		t.Helper()
		failed := make(chan error, 8)
		for range cap(failed) {
			go func() { failed <- what() }()
		}
		for range cap(failed) {
			if err := <-failed; err != nil {
				t.Error(err)
			}
		}
	}
	atOnce(func() error {
		_, err := w.commands.PauseSource(t.Context(), operator, command.PauseSource{
			Source: source,
			Reason: "the owner objects",
		})
		return err
	})
	_, err := w.commands.CollectSource(t.Context(), operator, command.CollectSource{Source: source})
	var refusal *command.Refusal
	if !errors.As(err, &refusal) || refusal.Kind != command.Conflict ||
		!strings.Contains(refusal.Message, "paused: the owner objects") {
		t.Errorf("collect: %v", err)
	}
	atOnce(func() error {
		_, err := w.commands.ResumeSource(t.Context(), operator, command.ResumeSource{Source: source})
		return err
	})
	if paused, resumed := len(w.recorded("source.paused.v1")), len(w.recorded("source.resumed.v1")); paused != 1 ||
		resumed != 1 {
		t.Errorf("%d pauses and %d ends of one are recorded", paused, resumed)
	}
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
}

// A feed gets the known happenings of a paused source only. Resumed, it is visited at once, and new happenings are
// news.
func TestAttach_pausedSource(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz", "quiz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source, feed := w.account(), w.feed()
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
	// long ago
	w.exec("UPDATE carillon.source_walks SET completed_at = completed_at - 10 * interval_seconds * interval '1 second'")
	w.pause(source, "the owner objects")
	p.show("jazz", "quiz", "opera")
	w.attach(feed, source, "facebook")
	w.eventuallyItems(feed, "jazz", "quiz")
	if b := w.backfill(source); b.EndedAt == nil {
		t.Errorf("the backfill runs: %+v", b)
	}
	w.resume(source)
	w.eventuallyItems(feed, "jazz", "quiz", "opera")
	w.eventually("it is published", func() bool { return w.published() == 1 })
}

// Of a source that was never visited nothing is known: the backfill is what its first walk finds, once it is resumed.
func TestAttachingAPausedSourceThatIsNotKnown(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz", "quiz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source, feed := w.account(), w.feed()
	w.pause(source, "until the contract is signed")
	w.attach(feed, source, "facebook")
	if b := w.backfill(source); b.EndedAt != nil {
		t.Errorf("the backfill has ended: %+v", b)
	}
	w.resume(source)
	w.eventuallyItems(feed, "jazz", "quiz")
	w.eventually("the backfill ends", func() bool { b := w.backfill(source); return b.EndedAt != nil && b.Added == 2 })
	if n := w.published(); n != 0 {
		t.Errorf("%d are published", n)
	}
}
