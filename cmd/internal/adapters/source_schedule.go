package adapters

import (
	"context"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
	"carillon/command/collection"
	"carillon/query"
)

// SourceSchedule is collection.Schedule on the read model of sources.
type SourceSchedule struct{ Queries *query.Queries }

var _ collection.Schedule = SourceSchedule{}

// Due implements collection.Schedule.
func (s SourceSchedule) Due(ctx context.Context, now time.Time, limit int) ([]collection.Due, error) {
	rows, err := s.Queries.DueSources(ctx, now, limit)
	if err != nil {
		return nil, err
	}
	due := make([]collection.Due, len(rows))
	for i, r := range rows {
		due[i] = collection.Due{
			Source: collect.Source{ID: r.ID, Type: r.Type, URL: r.URL, Handle: r.Handle, Timezone: r.Timezone},
			Cursor: r.Cursor, Collections: r.Collections, Collecting: r.Collecting,
		}
	}
	return due, nil
}

// Shown implements collection.Schedule.
func (s SourceSchedule) Shown(ctx context.Context, source uuid.UUID) (map[uuid.UUID]collection.Shown, error) {
	rows, err := s.Queries.ShownAt(ctx, source)
	if err != nil {
		return nil, err
	}
	shown := make(map[uuid.UUID]collection.Shown, len(rows))
	for _, r := range rows {
		shown[r.ID] = collection.Shown{Digest: r.Digest, Stale: r.Stale}
	}
	return shown, nil
}
