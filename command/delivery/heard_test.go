package delivery

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/publication"
	"carillon/command/webhook"
	"carillon/eventstore/nodetest"
)

// claims is a queue whose claims answer what the test says.
type claims struct {
	sure

	claim    func(n int) []Job
	released chan uuid.UUID
	n        int
}

func (*claims) Worker() (id int32, known bool) { return 1, true }
func (*claims) Recover(context.Context, time.Duration, func() map[uuid.UUID]struct{}) (int, error) {
	return 0, nil
}
func (*claims) NextDue() (time.Time, bool)                  { return time.Time{}, false }
func (*claims) Resting() map[uuid.UUID]time.Duration        { return nil }
func (c *claims) Claim(context.Context, Ask) ([]Job, error) { c.n++; return c.claim(c.n), nil }

func (c *claims) Release(_ context.Context, ids []uuid.UUID) error {
	for _, id := range ids {
		c.released <- id
	}
	return nil
}

// noting is a sender that notes to whom it sends, and does not end before it is let.
type noting struct {
	mu  sync.Mutex
	to  map[string]int
	let chan struct{}
}

func (n *noting) Send(ctx context.Context, r webhook.Request) webhook.Result {
	n.mu.Lock()
	n.to[r.URL]++
	n.mu.Unlock()
	select {
	case <-n.let:
	case <-ctx.Done():
	}
	return webhook.Result{Aborted: true}
}

// A claim is under way when its destination is disabled, or moved. What it brings knows nothing of that; it is not sent to
// where it must not go any more.
func TestWhatIsClaimedFollowsWhatWasHeardMeanwhile(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	organization := uuid.New()
	target := func(name string) *destination.Target {
		t.Helper()
		made := &destination.Target{ID: uuid.New(), Organization: organization, Enabled: true, URL: "https://example.org/" + name}
		out, err := destination.Aggregate.Execute(t.Context(), store, made.ID, destination.Create{
			Organization: organization, Settings: destination.Settings{Name: name, URL: made.URL}, SecretID: uuid.New(), At: time.Now(),
		}, destination.Options{})
		if err != nil {
			t.Fatal(err)
		}
		made.Revision = out.Revision
		return made
	}
	revise := func(of *destination.Target, r destination.Revise) {
		t.Helper()
		r.Organization, r.At = organization, time.Now()
		if _, err := destination.Aggregate.Execute(t.Context(), store, of.ID, r, destination.Options{}); err != nil {
			t.Error(err)
		}
	}
	jobFor := func(to *destination.Target) Job {
		return Job{
			ID: uuid.New(), Target: to, LeasedUntil: time.Now().Add(time.Hour),
			Body: &Body{Event: uuid.New(), Published: publication.Published{Type: "news.item.added", Data: []byte("{}")}},
		}
	}
	disabled, moved, last, sign := target("disabled"), target("moved"), target("last"), target("sign")
	first, waits := jobFor(sign), jobFor(sign)
	late := []Job{jobFor(disabled), jobFor(moved), jobFor(last)}
	off, elsewhere := false, "https://example.org/elsewhere"
	queue := &claims{released: make(chan uuid.UUID, 10)}
	queue.claim = func(n int) []Job {
		switch n {
		case 1:
			return []Job{first, waits}
		case 2: // it has read the destinations, and takes so long that all of this is heard
			revise(disabled, destination.Revise{Enabled: &off})
			revise(moved, destination.Revise{URL: &elsewhere})
			revise(sign, destination.Revise{Enabled: &off})
			if id := <-queue.released; id != waits.ID {
				t.Errorf("%s goes back, want the one that waits", id)
			}
			return late
		}
		return nil
	}
	sender := &noting{to: map[string]int{}, let: make(chan struct{})}
	limits := DefaultLimits
	limits.PerNew = 1
	d := &Deliverer{
		Store: store, Queue: queue, Sender: sender, Policy: DefaultPolicy, Limits: limits,
		Now: time.Now, Jitter: func() float64 { return 0 }, Log: slog.New(slog.DiscardHandler), Record: func(Attempt) {},
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	sentTo := func(url string) int {
		sender.mu.Lock()
		defer sender.mu.Unlock()
		return sender.to[url]
	}
	for deadline := time.Now().Add(time.Minute); sentTo(last.URL) == 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was claimed is not sent")
		}
	}
	for deadline := time.Now().Add(time.Minute); sentTo(elsewhere)+sentTo(moved.URL) == 0; <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("what was claimed for one that moved is not sent")
		}
	}
	if n := sentTo(disabled.URL); n != 0 {
		t.Error("sent to a destination that was disabled")
	} else if id := <-queue.released; id != late[0].ID {
		t.Errorf("%s goes back, want what was claimed for the disabled one", id)
	}
	if sentTo(moved.URL) != 0 {
		t.Error("sent to an address that was changed")
	}
	close(sender.let)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// What was reserved for a destination that is disabled or deleted before it comes leaves its room; replays of a disabled one
// go on, and so does everything once it is enabled again.
func TestWhatComesLateFollowsItsDestination(t *testing.T) {
	t.Parallel()
	enabled := &destination.Target{ID: uuid.UUID{1}, Organization: uuid.UUID{1}, Enabled: true}
	set := func(to bool) change {
		return func(t *destination.Target) *destination.Target {
			next := *t
			next.Enabled = to
			return &next
		}
	}
	for name, tt := range map[string]struct {
		changes             []change
		stays, replaysStays bool
	}{
		"disabled":               {[]change{set(false)}, false, true},
		"disabled, then enabled": {[]change{set(false), set(true)}, true, true},
		"deleted":                {[]change{set(true), nil}, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ls := newLanes(tight)
			body := &Body{}
			if !ls.reserve(enabled, body) {
				t.Fatal("no room")
			}
			for _, c := range tt.changes {
				ls.change(enabled.ID, c)
			}
			if got := ls.add(Job{ID: uuid.New(), Target: enabled, Body: body}, true); got != tt.stays {
				t.Errorf("what was reserved stays: %t", got)
			}
			if got := ls.add(Job{ID: uuid.New(), Target: enabled, Body: body}, false); got != tt.stays {
				t.Errorf("what was claimed stays: %t", got)
			}
			if got := ls.add(Job{ID: uuid.New(), Target: enabled, Body: body, Replay: uuid.New()}, false); got != tt.replaysStays {
				t.Errorf("a replay stays: %t", got)
			}
			for _, started := range take(ls) {
				ls.done(started, time.Millisecond)
			}
			if ls.fresh.used != 0 || ls.claimed.used != 0 || len(ls.lanes) != 0 || ls.queued != 0 {
				t.Errorf("left in the end: %d fresh, %d claimed, %d lanes, %d queued", ls.fresh.used, ls.claimed.used, len(ls.lanes), ls.queued)
			}
		})
	}
}
