package live_test

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/console/live"
)

// world is a hub with a source that a test controls.
type world struct {
	live.Hub

	mu      sync.Mutex
	ended   []string // sessions
	lookups int
	sources int
	broken  error // of the source, once
}

// end ends sessions.
func (w *world) end(sessions ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = sessions
}

// counts returns how often the source was started and sessions were looked up.
func (w *world) counts() (sources, lookups int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sources, w.lookups
}

func (w *world) run(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.Run(ctx, live.Work{
			Source: func(ctx context.Context, ready func()) error {
				w.mu.Lock()
				w.sources++
				err := w.broken
				w.broken = nil
				w.mu.Unlock()
				ready()
				if err != nil {
					return err
				}
				<-ctx.Done()
				return nil
			},
			Ended: func(context.Context, []string) ([]string, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				w.lookups++
				return w.ended, nil
			},
			Failed: func(error) {},
		})
	}()
	t.Cleanup(func() {
		cancel()
		<-done
	})
	synctest.Wait()
}

// browser is a page and its output. leave ends it.
type browser struct {
	got   *httptest.ResponseRecorder
	leave func()
	ended chan struct{}
}

func (w *world) page(t *testing.T, asked live.Asked) *browser {
	t.Helper()
	page, err := w.Open(asked)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	b := &browser{got: httptest.NewRecorder(), leave: cancel, ended: make(chan struct{})}
	go func() {
		defer close(b.ended)
		defer page.Close()
		_ = page.Serve(ctx, b.got)
	}()
	synctest.Wait()
	return b
}

// text returns the output, after the page has left.
func (b *browser) text() string {
	synctest.Wait()
	b.leave()
	<-b.ended
	return b.got.Body.String()
}

func (b *browser) expect(t *testing.T, want ...string) string {
	t.Helper()
	text := b.text()
	for _, part := range want {
		if !strings.Contains(text, part) {
			t.Errorf("there is no %q in\n%s", part, text)
		}
	}
	return text
}

func row(topic string, number int) live.Message {
	return live.Message{
		Topics: []string{topic},
		Event:  "row",
		Data:   fmt.Sprintf("%s %d", topic, number),
		About:  number,
	}
}

func TestPagesHearOfTheirTopics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.run(t)
		one := w.page(t, live.Asked{Session: "s", Topics: []string{"a", "b"}})
		two := w.page(t, live.Asked{Session: "s", Topics: []string{"c"}, Filter: func(m live.Message) string {
			if m.About == 2 {
				return ""
			}
			return "odd"
		}})
		time.Sleep(time.Second)
		for i := range 3 {
			w.Publish(row("a", i+1))
			w.Publish(row("c", i+1))
		}
		if text := one.expect(t, "event: row\ndata: a 1\n", "data: a 3"); strings.Contains(text, "data: c") {
			t.Error("it hears of what is others'")
		}
		if text := two.expect(t, "event: odd\ndata: c 1\n", "data: c 3"); strings.Contains(text, "data: c 2") {
			t.Error("the filter lets all through")
		}
		if w.Pages() != 0 || !w.Wanted("x", "c") || w.Wanted("x") {
			t.Error("who has left is still counted, or not waited for")
		}
		if time.Sleep(time.Minute); w.Wanted("a", "c") {
			t.Error("who does not come back is waited for")
		}
	})
}

func id(text string) string {
	_, text, _ = strings.Cut(text[strings.LastIndex(text, "\nid: "):], "id: ")
	id, _, _ := strings.Cut(text, "\n")
	return id
}

// TestReconnectedPages: a page that reconnects gets the messages in between, or is asked to reload.
func TestPagesThatComeBack(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.run(t)
		first := w.page(t, live.Asked{Session: "s", Topics: []string{"a"}})
		time.Sleep(time.Second)
		w.Publish(row("a", 1))
		last := id(first.expect(t, "data: a 1"))
		w.Publish(row("a", 2))
		w.Publish(row("b", 3))
		again := w.page(t, live.Asked{Session: "s", Topics: []string{"a"}, LastID: last})
		if text := again.expect(t, "data: a 2"); strings.Contains(text, "data: a 1") || strings.Contains(text, "data: b") ||
			strings.Contains(text, live.Stale) {
			t.Errorf("it got\n%s", text)
		}
		for i := range 2000 {
			w.Publish(row("b", i))
		}
		for _, unknown := range []string{last, "made-7", "x", last + "9", strings.Split(last, "-")[0] + "-999999"} {
			w.page(t, live.Asked{Session: "s", Topics: []string{"a"}, LastID: unknown}).expect(t, "event: "+live.Stale)
		}

		// The source stops half a minute after the last page has left; later changes are unknown.
		end := w.page(t, live.Asked{Session: "s", Topics: []string{"a"}})
		last = id(end.text())
		time.Sleep(time.Minute)
		if sources, _ := w.counts(); sources != 1 {
			t.Errorf("the source began %d times", sources)
		}
		w.page(t, live.Asked{Session: "s", Topics: []string{"a"}, LastID: last}).expect(t, "event: "+live.Stale)
		if sources, _ := w.counts(); sources != 2 {
			t.Errorf("the source began %d times", sources)
		}
	})
}

// TestTopicWithoutPages: messages of a topic without pages are dropped, and a page that reconnects later is asked to
// reload, even if other topics kept the hub running. Pages that are being read or were cut off miss nothing.
func TestPagesHearOfWhatHappenedBeforeTheyOpened(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		if mark := w.Mark("a"); mark != "" {
			t.Errorf("a hub that does not run marks %q", mark)
		}
		w.run(t)
		others := w.page(t, live.Asked{Session: "others", Topics: []string{"b"}})
		time.Sleep(time.Second)
		if w.Wanted("a") {
			t.Error("what nobody follows is wanted")
		}
		mark := w.Mark("a")
		if !w.Wanted("a") {
			t.Error("what is being read is not wanted")
		}
		w.Publish(row("a", 1))
		first := w.page(t, live.Asked{Session: "s", Topics: []string{"a"}, LastID: mark})
		text := first.expect(t, "data: a 1")
		if strings.Contains(text, live.Stale) {
			t.Errorf("it missed nothing, and got\n%s", text)
		}

		time.Sleep(20 * time.Second)
		if !w.Wanted("a") {
			t.Error("who was cut off is not waited for")
		}
		w.Publish(row("a", 2))
		again := w.page(t, live.Asked{Session: "s", Topics: []string{"a"}, LastID: id(text)})
		if text = again.expect(t, "data: a 2"); strings.Contains(text, live.Stale) {
			t.Errorf("it came back soon, and got\n%s", text)
		}

		time.Sleep(31 * time.Second)
		if w.Wanted("a") {
			t.Error("what nobody follows is wanted")
		}
		w.page(t, live.Asked{Session: "s", Topics: []string{"a"}, LastID: id(text)}).expect(t, "event: "+live.Stale)
		w.page(t, live.Asked{Session: "s", Topics: []string{"a", "c"}, LastID: id(text)}).expect(t, "event: "+live.Stale)
		others.leave()
		<-others.ended
	})
}

// TestStalePages: pages that do not read their messages, or whose source failed, are asked to reload.
func TestPagesThatMissSomething(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{broken: errors.New("cut off")}
		w.run(t)
		b := w.page(t, live.Asked{Session: "s", Topics: []string{"a"}})
		time.Sleep(3 * time.Second)
		b.expect(t, "event: "+live.Stale)
		if sources, _ := w.counts(); sources != 2 {
			t.Errorf("the source began %d times", sources)
		}

		slow, err := w.Open(live.Asked{Session: "s", Topics: []string{"a"}})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 1000 {
			w.Publish(row("a", i))
		}
		ctx, cancel := context.WithCancel(t.Context())
		got := httptest.NewRecorder()
		done := make(chan struct{})
		go func() {
			defer close(done)
			_ = slow.Serve(ctx, got)
		}()
		synctest.Wait()
		cancel()
		<-done
		slow.Close()
		if text := got.Body.String(); !strings.Contains(text, "data: a 0\n") || !strings.HasSuffix(text, "event: "+live.Stale+
			"\ndata: \n\n") {
			t.Errorf("it got\n%s", text)
		}
	})
}

// TestPageLimits: a page ends with its session; pages are limited by session and in total.
func TestPagesEndAndAreBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		if _, err := w.Open(live.Asked{Session: "s"}); !errors.Is(err, live.ErrClosed) {
			t.Errorf("of a hub that does not run: %v", err)
		}
		w.run(t)
		var pages []*browser
		for range live.MaxSessionPages {
			pages = append(pages, w.page(t, live.Asked{Session: "s", Topics: []string{"a"}}))
		}
		other := w.page(t, live.Asked{Session: "other", Topics: []string{"a"}})
		if _, err := w.Open(live.Asked{Session: "s"}); !errors.Is(err, live.ErrTooMany) {
			t.Errorf("one more of a session: %v", err)
		}
		w.end("s")
		time.Sleep(2 * time.Second)
		for _, p := range pages {
			<-p.ended
		}
		if w.Pages() != 1 {
			t.Errorf("%d pages are open", w.Pages())
		}
		w.end()
		w.End("other")
		<-other.ended
		for i := range live.MaxPages {
			if i == live.MaxGroupPages {
				if _, err := w.Open(live.Asked{Session: "one more", Group: "g"}); !errors.Is(err, live.ErrTooMany) {
					t.Errorf("one more of a group: %v", err)
				}
			}
			group := ""
			if i < live.MaxGroupPages {
				group = "g"
			}
			if _, err := w.Open(live.Asked{Session: fmt.Sprint(i), Group: group}); err != nil {
				t.Fatal(err)
			}
		}
		w.End("0")
		if _, err := w.Open(live.Asked{Session: "0", Group: "g"}); err != nil {
			t.Errorf("of a group of which one has ended: %v", err)
		}
		if _, err := w.Open(live.Asked{Session: "more"}); !errors.Is(err, live.ErrTooMany) {
			t.Errorf("one more in all: %v", err)
		}
	})
}

// TestManyPagesOneReader: 500 open pages cost one source and one lookup of sessions a second.
func TestManyPagesAreOneReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w := &world{}
		w.run(t)
		var pages []*browser
		for i := range 500 {
			pages = append(pages, w.page(t, live.Asked{Session: fmt.Sprint(i), Topics: []string{"a"}}))
		}
		time.Sleep(10*time.Second + time.Millisecond)
		w.Publish(row("a", 1))
		for _, p := range pages {
			p.expect(t, "data: a 1")
		}
		if sources, lookups := w.counts(); sources != 1 || lookups > 10 {
			t.Errorf("%d sources, %d looks at sessions in 10 s", sources, lookups)
		}
	})
}

func BenchmarkPublishTo500(b *testing.B) {
	var hub live.Hub
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	ready := make(chan struct{})
	go hub.Run(ctx, live.Work{
		Source: func(ctx context.Context, _ func()) error { close(ready); <-ctx.Done(); return nil },
		Ended:  func(context.Context, []string) ([]string, error) { return nil, nil }, Failed: func(error) {},
	})
	for i := range 500 {
		for {
			page, err := hub.Open(live.Asked{Session: fmt.Sprint(i), Topics: []string{"a"}})
			if errors.Is(err, live.ErrClosed) {
				continue
			}
			go func() { _ = page.Serve(ctx, httptest.NewRecorder()) }()
			break
		}
	}
	<-ready
	m := row("a", 1)
	for b.Loop() {
		hub.Publish(m)
	}
}
