package sources

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/projections/column"
)

// place is a happening at a source.
type place struct{ source, happening uuid.UUID }

// fold is what the happenings of a batch come to.
type fold struct {
	shown map[place]*shown
	stale map[place]struct{} // where the batch says nothing else
}

type shown struct {
	digest []byte
	stale  bool
}

func newFold() fold {
	return fold{shown: map[place]*shown{}, stale: map[place]struct{}{}}
}

func (f fold) add(id uuid.UUID, event happening.Event) error {
	switch e := event.(type) {
	case happening.Observed:
		return f.show(place{e.SourceID, id}, e.Details, e.Source)
	case happening.Revised:
		return f.show(place{e.SourceID, id}, e.Details, e.Source)
	case happening.WentStale:
		at := place{e.SourceID, id}
		if s := f.shown[at]; s != nil {
			s.stale = true
		} else {
			f.stale[at] = struct{}{}
		}
	}
	return nil
}

func (f fold) show(at place, details happening.Details, block happening.Block) error {
	digest, err := happening.Digest(details, block)
	if err != nil {
		return fmt.Errorf("digest: %w", err)
	}
	f.shown[at] = &shown{digest: digest}
	delete(f.stale, at)
	return nil
}

// queue writes everything in two statements.
func (f fold) queue(batch *pgx.Batch) {
	if n := len(f.shown); n > 0 {
		sources, happenings := make(column.UUIDs, 0, n), make(column.UUIDs, 0, n)
		digests, stale := make([][]byte, 0, n), make([]bool, 0, n)
		for at, s := range f.shown {
			sources, happenings = append(sources, at.source), append(happenings, at.happening)
			digests, stale = append(digests, s.digest), append(stale, s.stale)
		}
		batch.Queue(`INSERT INTO shown (source_id, happening_id, digest, stale)
			SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bytea[], $4::boolean[])
			ON CONFLICT (source_id, happening_id) DO UPDATE SET digest = excluded.digest, stale = excluded.stale`,
			sources, happenings, digests, stale)
	}
	if n := len(f.stale); n > 0 {
		sources, happenings := make(column.UUIDs, 0, n), make(column.UUIDs, 0, n)
		for at := range f.stale {
			sources, happenings = append(sources, at.source), append(happenings, at.happening)
		}
		batch.Queue(`UPDATE shown s SET stale = true FROM unnest($1::uuid[], $2::uuid[]) AS gone (source_id, happening_id)
			WHERE s.source_id = gone.source_id AND s.happening_id = gone.happening_id`, sources, happenings)
	}
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
