package collection

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/google/uuid"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/eventstore"
)

// concurrentObservations bounds the observations that are on their way into the store at one time.
const concurrentObservations = 16

// noteUnstorable is the note on an observation that can't be stored.
const noteUnstorable = "unstorable"

// Recorder turns what collections found into events.
type Recorder struct {
	Store eventstore.Store
	Now   func() time.Time
	Log   *slog.Logger
}

func (r *Recorder) now() time.Time { return r.Now().UTC().Truncate(time.Microsecond) }

// visit is a collection under way.
type visit struct {
	*Recorder
	source uuid.UUID
	number int
	trace  uuid.UUID // correlates what the visit records
}

// begin records that a visit begins. It is nil where somebody else has begun it.
func (r *Recorder) begin(ctx context.Context, due Due) (*visit, error) {
	v := &visit{Recorder: r, source: due.Source.ID, number: due.Collections + 1}
	v.trace = uuid.NewSHA1(v.source, []byte("visit "+strconv.Itoa(v.number)))
	out, err := v.onSource(ctx, source.Start{Number: v.number, Abandons: due.Collecting, At: r.now()})
	if err != nil || len(out.Events) == 0 {
		return nil, err
	}
	return v, nil
}

func (v *visit) onSource(ctx context.Context, command source.Command) (eventstore.Outcome[source.State, source.Event], error) {
	return source.Aggregate.Execute(ctx, v.Store, v.source, command, source.Options{Metadata: v.metadata()})
}

func (v *visit) metadata() eventstore.Metadata {
	return eventstore.Metadata{CorrelationID: v.trace, CausationID: v.trace, Actor: MonitorName}
}

// spread is the source's place in the tolerance of its schedule.
func (v *visit) spread() float64 {
	h := fnv.New32a()
	_, _ = h.Write(v.trace[:])
	return float64(h.Sum32()) / math.MaxUint32
}

// record stores what the source shows, then that the visit is complete. Where it fails the visit stays incomplete, and
// the next one does again what is missing.
func (v *visit) record(ctx context.Context, found result, shown map[uuid.UUID]Shown) (source.Counts, error) {
	if note := onlyScripts(found); note != "" {
		_, err := v.onSource(ctx, source.NeedJavaScript{Number: v.number, Message: clip(note), Spread: v.spread(), At: v.now()})
		return source.Counts{Pages: found.Pages}, err
	}
	tally := tally{counts: source.Counts{Pages: found.Pages, Observed: len(found.Observations)}}
	group, recording := errgroup.WithContext(ctx)
	group.SetLimit(concurrentObservations)
	gone := make(map[uuid.UUID]struct{}, len(shown))
	if whole(found) {
		for id, s := range shown {
			if !s.Stale {
				gone[id] = struct{}{}
			}
		}
	}
	for _, o := range found.Observations {
		id := happening.DeriveID(o.Key)
		delete(gone, id)
		group.Go(func() error { return v.observe(recording, id, o, shown[id], &tally) })
	}
	for id := range gone {
		group.Go(func() error { return v.markStale(recording, id, &tally) })
	}
	if err := group.Wait(); err != nil {
		return tally.counts, err
	}
	complete := source.Complete{
		Number: v.number, Counts: tally.counts, NotModified: found.NotModified, Spread: v.spread(), At: v.now(),
		Notes: append(notesOf(found.Notes), tally.notes...),
	}
	if json.Valid(found.Cursor) {
		complete.Cursor = json.RawMessage(found.Cursor)
	}
	_, err := v.onSource(ctx, complete)
	if errors.Is(err, eventstore.ErrTooLarge) {
		complete.Cursor = nil // the next visit begins anew, which is better than no end of this one
		_, err = v.onSource(ctx, complete)
	}
	return tally.counts, err
}

// onlyScripts is what the collector says of a source that shows nothing until its scripts have run, else "".
func onlyScripts(found result) string {
	for _, note := range found.Notes {
		if note.Code == collect.NoteNeedsJavaScript && len(found.Observations) == 0 {
			return note.Text
		}
	}
	return ""
}

// whole says that what was not observed is not on show any more.
func whole(found result) bool {
	if found.NotModified {
		return false
	}
	for _, note := range found.Notes {
		switch note.Code {
		case collect.NoteTruncated, collect.NoteBrokenMarkup, collect.NoteNeedsJavaScript, collect.NotePageFailed:
			return false
		case collect.NoteNoEvents, collect.NoteSkippedEvent, collect.NoteAssumedTimezone, collect.NoteLeftOut:
		}
	}
	return true
}

// tally counts what came of the observations.
type tally struct {
	mu     sync.Mutex
	counts source.Counts
	notes  []source.Note
}

func (t *tally) add(f func(*source.Counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	f(&t.counts)
}

// observe records an observation, unless it is what the source showed the last time.
func (v *visit) observe(ctx context.Context, id uuid.UUID, o collect.Observation, known Shown, t *tally) error {
	digest, err := happening.Digest(o.Details, o.Source, o.Standing)
	if err == nil && !known.Stale && bytes.Equal(digest, known.Digest) {
		return nil
	}
	out, err := happening.Aggregate.Execute(ctx, v.Store, id, happening.Observe{
		SourceID: v.source, Key: o.Key, Keys: o.Keys, Details: o.Details, PublishedAt: o.PublishedAt, Source: o.Source, At: v.now(),
		Standing: o.Standing, Origins: collect.Stored(o.Origins),
	}, happening.Options{Metadata: v.metadata()})
	switch {
	case err == nil:
	case errors.Is(err, eventstore.ErrUnavailable), errors.Is(err, eventstore.ErrWrongRevision), ctx.Err() != nil:
		return fmt.Errorf("happening %s: %w", id, err)
	default:
		// One that can't be stored (too large, not text) must not keep the others out.
		v.Log.Warn("an observation can't be stored", "source", v.source, "happening", id, "error", err)
		t.mu.Lock()
		defer t.mu.Unlock()
		t.notes = append(t.notes, source.Note{Code: noteUnstorable, Text: "an event was left out, because it can't be stored"})
		return nil
	}
	for _, event := range out.Events {
		switch event.(type) {
		case happening.Observed:
			t.add(func(c *source.Counts) { c.New++ })
		case happening.Revised:
			t.add(func(c *source.Counts) { c.Revised++ })
		case happening.WentStale, happening.OccurrenceChanged: // markStale counts the one, the other comes with a revision
		}
	}
	return nil
}

func (v *visit) markStale(ctx context.Context, id uuid.UUID, t *tally) error {
	out, err := happening.Aggregate.Execute(ctx, v.Store, id,
		happening.MarkStale{SourceID: v.source, At: v.now()}, happening.Options{Metadata: v.metadata()})
	if err != nil {
		return fmt.Errorf("happening %s: %w", id, err)
	}
	t.add(func(c *source.Counts) { c.WentStale += len(out.Events) })
	return nil
}

func notesOf(notes []collect.Note) []source.Note {
	list := make([]source.Note, 0, len(notes))
	for _, note := range notes {
		list = append(list, source.Note{Code: string(note.Code), Text: note.Text})
	}
	return list
}
