package adapters_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
	"carillon/projections/items"
	"carillon/query"
)

// backfill is that of a source in the only feed that it fills.
func (w *world) backfill(source uuid.UUID) query.Backfill {
	w.t.Helper()
	listed := w.listed(source)
	if len(listed.Backfills) != 1 {
		w.t.Fatalf("backfills of %s: %+v", source, listed.Backfills)
	}
	return listed.Backfills[0]
}

// published counts the events that subscribers hear of.
func (w *world) published() int {
	w.t.Helper()
	return len(w.recorded("publication.event-published.v1"))
}

// The happenings of a source are known: they are the backfill, no visit is needed, and new ones of the next visit are
// news.
func TestAttach_knownSource(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz", "quiz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source, feed := w.account(), w.feed()
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
	w.attach(feed, source, "facebook")
	if b := w.backfill(source); b.EndedAt == nil || !b.EndedAt.Equal(b.Since) || b.Feed != feed {
		t.Errorf("backfill = %+v", b)
	}
	var wanted *time.Time
	if err := w.pool.QueryRow(t.Context(), "SELECT wanted_at FROM sources.sources WHERE id = $1", source).
		Scan(&wanted); err != nil || wanted != nil {
		t.Errorf("a visit is wanted since %v, %v", wanted, err)
	}
	w.eventuallyItems(feed, "jazz", "quiz")
	w.eventually("the items of the backfill are counted", func() bool { return w.backfill(source).Added == 2 })
	p.show("jazz", "quiz", "opera")
	w.collect(source)
	w.eventuallyItems(feed, "jazz", "quiz", "opera")
	w.eventually("it is published", func() bool { return w.published() > 0 })
	if got := w.published(); got != 1 {
		t.Errorf("%d are published", got)
	}
	if b := w.backfill(source); b.Added != 2 {
		t.Errorf("backfill = %+v", b)
	}
}

// A finished walk is recorded before its visit ends. An attachment between the two, by a caller that waited for the
// walk, finds the source known; so does one after the memory of walks was lost.
func TestAttach_visitAboutToEnd(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source, feed := w.account(), w.feed()
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
	w.stop()
	w.exec("UPDATE carillon.source_walks SET completed_at = NULL") // as before the visit's end
	w.attach(feed, source, "facebook")
	if b := w.backfill(source); b.EndedAt == nil || !b.EndedAt.Equal(b.Since) {
		t.Errorf("backfill = %+v", b)
	}
}

// A source whose last walk is long ago is treated like a new one: the happenings of its next whole walk are backfill.
func TestAttach_overdueSource(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.show("jazz")
	w := open(t, map[string]collect.Collector{"facebook": p})
	source, feed := w.account(), w.feed()
	w.collect(source)
	w.eventuallyState(source, 1, "ok")
	w.visitEnded(source)
	for _, table := range []string{"carillon.source_walks", "sources.sources"} {
		w.exec("UPDATE " + table + " SET completed_at = completed_at - 2 * interval_seconds * interval '1 second'")
	}
	p.show("jazz", "quiz")
	w.attach(feed, source, "facebook")
	w.eventuallyItems(feed, "jazz", "quiz")
	w.eventually("the backfill ends", func() bool { b := w.backfill(source); return b.EndedAt != nil && b.Added == 2 })
	if got := w.published(); got != 0 {
		t.Errorf("%d are published", got)
	}
}

func (w *world) exec(sql string) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), sql); err != nil {
		w.t.Fatal(err)
	}
}

// The first walk after an attachment fails. The next regular one is the backfill, and ends it, also if the process has
// ended and the memory of walks was lost meanwhile.
func TestBackfillOutlastsFailure(t *testing.T) {
	t.Parallel()
	p := &place{}
	p.fail(errors.New("down"))
	collectors := map[string]collect.Collector{"facebook": p}
	w := open(t, collectors)
	source, feed := w.account(), w.feed()
	at := time.Now()
	w.attach(feed, source, "facebook")
	w.eventuallyState(source, 1, "failing")
	if b := w.backfill(source); b.EndedAt != nil || b.Since.Before(at.Add(-time.Second)) || b.Added != 0 {
		t.Errorf("backfill = %+v", b)
	}
	w.stop()
	w.exec("DELETE FROM carillon.source_walks")
	w.exec("UPDATE sources.sources SET due_at = now()") // the time has come
	p.fail(nil)
	p.show("jazz", "quiz")
	w.stop = w.curateAndMonitor(collectors)
	w.eventuallyItems(feed, "jazz", "quiz")
	w.eventually("the backfill ends", func() bool { b := w.backfill(source); return b.EndedAt != nil && b.Added == 2 })
	p.show("jazz", "quiz", "opera")
	w.collect(source)
	w.eventuallyItems(feed, "jazz", "quiz", "opera")
	w.eventually("it is published", func() bool { return w.published() > 0 })
	w.await(w.recorded("item.added.v1")[2].Position, nil, items.ReadModel.Name)
	if got := w.published(); got != 1 {
		t.Errorf("%d are published", got)
	}
}
