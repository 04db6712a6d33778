package adminapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/items"
	"carillon/query"
)

func (a *API) happeningRoutes(r routes) {
	r.operators.Get("/admin/happenings/{id}", handle(wire.With(pathID, a.showHappening)))
	r.operators.Post("/admin/happenings/{id}/split", handle(wire.With(pathID, wire.Empty(a.splitHappening))))
}

// Happening is an event of the outside world and the sources' views of it.
type Happening struct {
	ID uuid.UUID `json:"id"` // "eventId" in the API for organizations
	// StaleSince is the time since which no source shows it; null if one does.
	StaleSince *time.Time         `json:"staleSince"`
	Fields     []HappeningField   `json:"fields"`
	Sources    []HappeningTelling `json:"sources"` // those that show it, in the order of their first observation
	Items      []query.ShownItem  `json:"items"`
	// MergedInto is the event that is shown in the place of this one; Merged are those in whose place this one is.
	MergedInto *uuid.UUID         `json:"mergedInto"`
	Merged     []uuid.UUID        `json:"merged"`
	Compared   []query.Comparison `json:"compared"` // with others that might be the same
}

// HappeningSplit is the result of a split.
type HappeningSplit struct {
	Split []HappeningPair `json:"split"`
}

// HappeningPair are two events that were one.
type HappeningPair struct {
	ID   uuid.UUID `json:"id"`
	From uuid.UUID `json:"from"`
}

// HappeningField is a field with its origins. A value is as in items; of dates and statuses it is a list with an
// element for each occurrence.
type HappeningField struct {
	Field string `json:"field"`
	Value any    `json:"value"`
	// From are those who gave the value, or parts of it; Others are all the others who say something.
	From   []HappeningOrigin `json:"from"`
	Others []HappeningOrigin `json:"others"`
}

// HappeningOrigin is a source's value of a field, with its place. Page, syntax and path are absent if they are not
// known, as in events from before they were recorded.
type HappeningOrigin struct {
	SourceID uuid.UUID  `json:"sourceId"`
	Of       *uuid.UUID `json:"of,omitempty"`
	Page     string     `json:"page,omitempty"`
	Syntax   string     `json:"syntax,omitempty"`
	Path     string     `json:"path,omitempty"`
	At       time.Time  `json:"at"` // time of the source's last change
	Value    any        `json:"value"`
	Stale    bool       `json:"stale,omitzero"`
}

// HappeningTelling is a source that shows a happening.
type HappeningTelling struct {
	SourceID uuid.UUID `json:"sourceId"`
	// the happening that it shows there, which was merged into this one
	Of          *uuid.UUID      `json:"of,omitempty"`
	URL         string          `json:"url,omitempty"`
	Handle      string          `json:"handle,omitempty"`
	Standing    string          `json:"standing"` // post, listing, ownPage, platform, translation
	Source      happening.Block `json:"source"`
	PublishedAt *time.Time      `json:"publishedAt"`
	Since       time.Time       `json:"since"`
	DatedAt     time.Time       `json:"datedAt"` // time of its last change of dates and statuses
	ToldAt      time.Time       `json:"toldAt"`  // time of its last change
	StaleSince  *time.Time      `json:"staleSince"`
}

// showHappening answers GET /admin/happenings/{id}.
func (a *API) showHappening(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	rows, shownBy, err := a.Queries.Sightings(r.Context(), id)
	if errors.Is(err, query.ErrNotFound) {
		err = &wire.Failure{Kind: wire.NotFound, Issue: "no event has this id: it is the eventId of items", Cause: err}
	}
	if err != nil {
		return wire.Reply{}, err
	}
	h := Happening{
		ID:         id,
		StaleSince: staleSince(rows),
		Sources:    make([]HappeningTelling, len(rows)),
		Items:      shownBy,
	}
	sightings := make([]happening.Sighting, len(rows))
	for i, row := range rows {
		if sightings[i], err = sighting(row); err != nil {
			return wire.Reply{}, err
		}
		h.Sources[i] = sightingShown(row, &sightings[i])
	}
	h.Fields = fieldsOf(rows, sightings)
	into, from, compared, err := a.Queries.Likeness(r.Context(), id)
	if err != nil {
		return wire.Reply{}, err
	}
	h.MergedInto, h.Merged = wire.Nullable(into), append([]uuid.UUID{}, from...)
	h.Compared = compared
	return wire.OK(h), nil
}

// splitHappening answers POST /admin/happenings/{id}/split.
func (a *API) splitHappening(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	split, err := a.Commands.SplitHappening(r.Context(), operator(r), command.SplitHappening{Happening: id})
	pairs := wire.ListOf(split.Value, func(off command.SplitOff) HappeningPair {
		return HappeningPair{ID: off.Happening, From: off.From}
	})
	return a.Changed(r, split.Position, err, wire.OK(HappeningSplit{Split: pairs}), items.ReadModel.Name)
}

func sighting(row query.Sighting) (happening.Sighting, error) {
	t := happening.Sighting{
		SourceID:    row.SourceID,
		Of:          row.Of,
		Standing:    happening.Standing(row.Standing),
		PublishedAt: row.PublishedAt,
		Stale:       row.StaleAt != nil,
		Since:       row.Since,
		DatedAt:     row.DatedAt,
	}
	err := errors.Join(json.Unmarshal(row.Details, &t.Details), json.Unmarshal(row.Source, &t.Source),
		json.Unmarshal(row.Origins, &t.Origins))
	if err != nil {
		return t, fmt.Errorf("view of source %s: %w", row.SourceID, err)
	}
	return t, nil
}

func sightingShown(row query.Sighting, t *happening.Sighting) HappeningTelling {
	shown := HappeningTelling{
		SourceID:    row.SourceID,
		Of:          wire.Nullable(row.Of),
		Standing:    t.Standing.String(),
		Source:      t.Source,
		PublishedAt: row.PublishedAt,
		Since:       row.Since,
		DatedAt:     row.DatedAt,
		ToldAt:      row.ToldAt,
		StaleSince:  row.StaleAt,
	}
	if row.URL != nil {
		shown.URL = *row.URL
	}
	if row.Handle != nil {
		shown.Handle = *row.Handle
	}
	return shown
}

// staleSince is when the last of them ceased to show it.
func staleSince(rows []query.Sighting) *time.Time {
	var last *time.Time
	for _, row := range rows {
		if row.StaleAt == nil {
			return nil
		}
		if last == nil || row.StaleAt.After(*last) {
			last = row.StaleAt
		}
	}
	return last
}

func fieldsOf(rows []query.Sighting, sightings []happening.Sighting) []HappeningField {
	all := happening.Combine(sightings)
	var fields []HappeningField
	for _, field := range happening.Fields {
		value := all.Details.Value(field)
		if field == happening.FieldPublished && all.PublishedAt != nil {
			value = all.PublishedAt.UTC()
		}
		if value == nil {
			continue
		}
		shown := HappeningField{
			Field:  string(field),
			Value:  value,
			From:   []HappeningOrigin{},
			Others: []HappeningOrigin{},
		}
		given := all.GivenBy(field)
		for i := range sightings {
			t := &sightings[i]
			says := t.Details.Value(field)
			if field == happening.FieldPublished && t.PublishedAt != nil {
				says = t.PublishedAt.UTC()
			}
			if says == nil {
				continue
			}
			origin := HappeningOrigin{
				SourceID: t.SourceID,
				Of:       wire.Nullable(t.Of),
				At:       rows[i].ToldAt,
				Value:    says,
				Stale:    t.Stale,
			}
			for _, o := range t.Origins {
				if path, ok := o.Paths[field]; ok {
					origin.Page, origin.Syntax, origin.Path = o.Page, o.Syntax, path
					break
				}
			}
			if slices.Contains(given, i) {
				shown.From = append(shown.From, origin)
			} else {
				shown.Others = append(shown.Others, origin)
			}
		}
		fields = append(fields, shown)
	}
	return fields
}
