package sources

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/source"
	"carillon/projections/column"
)

// place is a happening at a source.
type place struct{ source, happening uuid.UUID }

// fold holds the changes by the happenings of a batch.
type fold struct {
	shown map[place]*shown
	stale map[place]struct{} // unless the batch changes them
	added map[filled]int
}

// filled is a feed with a source that fills it.
type filled struct{ feed, source uuid.UUID }

// itemsAdded counts what a backfill added.
type itemsAdded struct {
	filled
	n int
}

var addToBackfills = column.SQL("UPDATE attachments AS a SET added = a.added + u.n FROM %s "+
	"WHERE a.feed_id = u.feed_id AND a.source_id = u.source_id",
	column.New[column.UUIDs]("feed_id", "uuid", func(i itemsAdded) uuid.UUID { return i.feed }),
	column.New[column.UUIDs]("source_id", "uuid", func(i itemsAdded) uuid.UUID { return i.source }),
	column.New[[]int]("n", "integer", func(i itemsAdded) int { return i.n }))

type shown struct {
	digest []byte
	stale  bool
}

func newFold() fold {
	return fold{shown: map[place]*shown{}, stale: map[place]struct{}{}, added: map[filled]int{}}
}

// count counts what backfills add.
func (f fold) count(event item.Event) {
	switch e := event.(type) {
	case item.Added:
		if e.Backfill {
			f.added[filled{e.FeedID, e.SourceID}]++
		}
	case item.Removed, item.FeedbackGiven: // a backfill stays what it was
	}
}

// queueAdded writes what was counted by now.
func (f fold) queueAdded(batch *pgx.Batch) {
	rows := make([]itemsAdded, 0, len(f.added))
	for to, n := range f.added {
		rows = append(rows, itemsAdded{to, n})
	}
	addToBackfills.Queue(batch, rows)
	clear(f.added)
}

func (f fold) add(id uuid.UUID, event happening.Event) error {
	switch e := event.(type) {
	case happening.Observed:
		if e.Of == uuid.Nil { // a merged happening is observed under its former id
			return f.show(place{e.SourceID, id}, e.Details, e.Source, e.Standing)
		}
	case happening.Revised:
		if e.Of == uuid.Nil {
			return f.show(place{e.SourceID, id}, e.Details, e.Source, e.Standing)
		}
	case happening.WentStale:
		if e.Of != uuid.Nil {
			break
		}
		at := place{e.SourceID, id}
		if s := f.shown[at]; s != nil {
			s.stale = true
		} else {
			f.stale[at] = struct{}{}
		}
	case happening.OccurrenceChanged, happening.Merged, happening.Split: // say nothing about what a source shows
	}
	return nil
}

func (f fold) show(at place, details happening.Details, block happening.Block, standing happening.Standing) error {
	digest, err := happening.Digest(details, block, standing)
	if err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	f.shown[at] = &shown{digest: digest}
	delete(f.stale, at)
	return nil
}

// shownAt is a source's view of a happening.
type shownAt struct {
	place
	*shown
}

// The columns of the table shown.
var (
	placeColumns = []column.Column[place]{
		column.New[column.UUIDs]("source_id", "uuid", func(p place) uuid.UUID { return p.source }),
		column.New[column.UUIDs]("happening_id", "uuid", func(p place) uuid.UUID { return p.happening }),
	}
	upsertShown = column.Upsert("shown", []string{"source_id", "happening_id"}, nil, append(
		column.Of(func(s shownAt) place { return s.place }, placeColumns...),
		column.New[[][]byte]("digest", "bytea", func(s shownAt) []byte { return s.digest }),
		column.New[[]bool]("stale", "boolean", func(s shownAt) bool { return s.stale }),
	)...)
	endShown = column.SQL("UPDATE shown s SET stale = true FROM %s WHERE s.source_id = u.source_id "+
		"AND s.happening_id = u.happening_id",
		placeColumns...)
)

// queue writes everything in three statements, and forgets it.
func (f fold) queue(batch *pgx.Batch) {
	rows := make([]shownAt, 0, len(f.shown))
	for at, s := range f.shown {
		rows = append(rows, shownAt{at, s})
	}
	upsertShown.Queue(batch, rows)
	f.queueAdded(batch)
	endShown.Queue(batch, slices.Collect(maps.Keys(f.stale)))
	clear(f.shown)
	clear(f.stale)
}

// clean drops what Postgres can't keep as text.
func clean(s string) string { return strings.ReplaceAll(s, "\x00", "") }

func marshalNotes(notes []source.Note) ([]byte, error) {
	kept := make([]source.Note, len(notes))
	for i, note := range notes {
		kept[i] = source.Note{Code: clean(note.Code), Text: clean(note.Text)}
	}
	data, err := json.Marshal(kept)
	if err != nil {
		return nil, fmt.Errorf("notes: %w", err)
	}
	return data, nil
}
