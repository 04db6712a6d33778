package adminapi_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/adminapi"
	"carillon/projections/items"
)

func TestHappening_originsOfFields(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var page, list adminapi.Created
	s.do(t, "POST", "/admin/sources", `{"type":"site","url":"https://hall.example/1"}`).into(t, 201, &page)
	s.do(t, "POST", "/admin/sources", `{"type":"siteIndexPage","url":"https://town.example/events"}`).into(t, 201, &list)
	id := uuid.New()
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	start := time.Date(2026, 12, 5, 19, 0, 0, 0, time.UTC)
	observe := func(source uuid.UUID, standing happening.Standing, title, description, syntax string,
		status happening.Status) {
		t.Helper()
		instance := happening.DeriveInstanceID("k", "1")
		out, err := happening.Aggregate.Execute(t.Context(), s.Store, id, happening.Observe{
			SourceID: source,
			Key:      "k",
			At:       now,
			Standing: standing,
			Source:   happening.Block{Type: "site", URL: "https://" + title + ".example/"},
			Details: happening.Details{
				Title:       title,
				Description: description,
				Time:        happening.Time{TemporalPattern: happening.Singular, Timezone: "Europe/Rome"},
				Instances: []happening.Instance{{ID: instance, Status: status, Occurrences: []happening.Occurrence{
					{ID: happening.DeriveOccurrenceID(instance, 0), Start: start, Status: status},
				}}},
			},
			Origins: []happening.Origin{{
				Page:   "https://" + title + ".example/p",
				Syntax: syntax,
				Paths: map[happening.Field]string{
					happening.FieldTitle: syntax + ".name", happening.FieldStart: syntax + ".startDate",
				},
			}},
		}, happening.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Patient(t.Context(), out.Position, items.ReadModel.Name)
	}
	observe(list.ID, happening.FromListing, "list", "<p>The list has a description.</p>", "rdfa", happening.Cancelled)
	observe(page.ID, happening.FromOwnPage, "page", "", "json-ld", happening.Scheduled)
	fields := func() (map[string]adminapi.HappeningField, adminapi.Happening) {
		t.Helper()
		var shown adminapi.Happening
		s.do(t, "GET", "/admin/happenings/"+id.String(), "").into(t, 200, &shown)
		byName := map[string]adminapi.HappeningField{}
		for _, field := range shown.Fields {
			byName[field.Field] = field
		}
		return byName, shown
	}
	got, whole := fields()
	want := map[string]adminapi.HappeningField{
		"title": {
			Field: "title",
			Value: "page",
			From: []adminapi.HappeningOrigin{{
				SourceID: page.ID,
				Page:     "https://page.example/p",
				Syntax:   "json-ld",
				Path:     "json-ld.name",
				At:       now,
				Value:    "page",
			}},
			Others: []adminapi.HappeningOrigin{{
				SourceID: list.ID,
				Page:     "https://list.example/p",
				Syntax:   "rdfa",
				Path:     "rdfa.name",
				At:       now,
				Value:    "list",
			}},
		},
		"description": {
			Field:  "description",
			Value:  "<p>The list has a description.</p>",
			From:   []adminapi.HappeningOrigin{{SourceID: list.ID, At: now, Value: "<p>The list has a description.</p>"}},
			Others: []adminapi.HappeningOrigin{},
		},
		"status": {
			Field:  "status",
			Value:  []any{"cancelled"},
			From:   []adminapi.HappeningOrigin{{SourceID: list.ID, At: now, Value: []any{"cancelled"}}},
			Others: []adminapi.HappeningOrigin{{SourceID: page.ID, At: now, Value: []any{"scheduled"}}},
		},
		"start": {
			Field: "start",
			Value: []any{"2026-12-05T20:00:00+01:00"},
			From: []adminapi.HappeningOrigin{{
				SourceID: page.ID,
				Page:     "https://page.example/p",
				Syntax:   "json-ld",
				Path:     "json-ld.startDate",
				At:       now,
				Value:    []any{"2026-12-05T20:00:00+01:00"},
			}},
			Others: []adminapi.HappeningOrigin{{
				SourceID: list.ID,
				Page:     "https://list.example/p",
				Syntax:   "rdfa",
				Path:     "rdfa.startDate",
				At:       now,
				Value:    []any{"2026-12-05T20:00:00+01:00"},
			}},
		},
	}
	for name, field := range want {
		if diff := cmp.Diff(field, got[name]); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if len(whole.Sources) != 2 || whole.StaleSince != nil || whole.Sources[0].URL == "" {
		t.Errorf("sources: %+v, stale since %v", whole.Sources, whole.StaleSince)
	}
	for n, source := range []uuid.UUID{page.ID, list.ID} {
		at := now.Add(time.Duration(n+1) * time.Hour)
		out, err := happening.Aggregate.Execute(t.Context(), s.Store, id, happening.MarkStale{SourceID: source, At: at},
			happening.Options{})
		if err != nil {
			t.Fatal(err)
		}
		s.Patient(t.Context(), out.Position, items.ReadModel.Name)
	}
	if _, whole = fields(); whole.StaleSince == nil || !whole.StaleSince.Equal(now.Add(2*time.Hour)) {
		t.Errorf("no source shows it since %v", whole.StaleSince)
	}
}

func TestHappening_unknown(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.do(t, "GET", "/admin/happenings/"+uuid.NewString(), "").refused(t, 404, "NOT_FOUND", "no event has this id")
	s.do(t, "GET", "/admin/happenings/x", "").refused(t, 400, "INVALID_PARAMS", "id")
}
