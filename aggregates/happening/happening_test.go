package happening_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	site     = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	platform = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	older    = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	now      = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	block    = happening.Block{Type: "site", URL: "https://example.org/concert"}
	post     = happening.Block{
		Type:         "facebook",
		Subtype:      "event",
		PermalinkURL: "https://facebook.example/events/1",
		Publisher: &happening.Publisher{
			Type:      "page",
			Name:      "Town hall",
			Username:  "townhall",
			AvatarURL: "https://facebook.example/a.png",
		},
	}
	evening  = concert("Concert", 20)
	observed = happening.Observed{
		SourceID:    site,
		Key:         "url:https://example.org/concert",
		Keys:        []string{"url:https://example.org/concert"},
		Details:     evening,
		PublishedAt: &now,
		Source:      block,
		At:          now,
	}
)

// concert returns a happening on one evening, from an hour on for two hours.
func concert(title string, hour int) happening.Details {
	start := time.Date(2026, 12, 5, hour, 0, 0, 0, time.UTC)
	end := start.Add(2 * time.Hour)
	instance := happening.DeriveInstanceID("url:https://example.org/concert", happening.OriginalStart(start))
	return happening.Details{
		Title: title,
		Time:  happening.Time{TemporalPattern: happening.Singular, Timezone: "Europe/Rome"},
		URLs:  []string{"https://example.org/concert"},
		Instances: []happening.Instance{{ID: instance, Status: happening.Scheduled, Occurrences: []happening.Occurrence{
			{
				ID:     happening.DeriveOccurrenceID(instance, 0),
				Start:  start,
				End:    &end,
				Status: happening.Scheduled,
			},
		}}},
	}
}

func observe(details happening.Details, source happening.Block) happening.Observe {
	o := happening.Observe(observed)
	o.Details, o.Source = details, source
	return o
}

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[happening.Event](t, happening.Events, observed,
		happening.Revised{
			SourceID: platform,
			Details:  concert("Concert, moved", 21),
			Source:   post,
			At:       now,
		},
		happening.WentStale{SourceID: site, At: now},
		changed(evening, 0, func(c *happening.OccurrenceChanged) {
			c.PreviousStatus, c.PreviousStart = happening.Postponed, &now
		}),
		happening.Merged{
			From:    older,
			Members: []uuid.UUID{site},
			Reason:  "match",
			Score:   0.87,
			At:      now,
		},
		happening.Split{
			From:    older,
			Members: []uuid.UUID{site},
			Sources: []uuid.UUID{platform},
			At:      now,
		})
}

// Old events have fewer fields; newer fields are omitted when empty.
func TestStoredFormsOfWhatCameLater(t *testing.T) {
	t.Parallel()
	whole := observed
	whole.Standing, whole.Of = happening.FromOwnPage, platform
	whole.Origins = []happening.Origin{{
		Page: "https://example.org/concert", Syntax: "json-ld",
		Paths: map[happening.Field]string{happening.FieldTitle: "Event.name"},
	}}
	_, data, err := happening.Events.Encode(whole)
	must.OK(t, err)
	want := `,"standing":3,"origins":[{"page":"https://example.org/concert","syntax":"json-ld",` +
		`"paths":{"title":"Event.name"}}],` +
		`"of":"22222222-2222-4222-8222-222222222222"}`
	assert.True(t, strings.HasSuffix(string(data), want), "stored as %s", data)
}

func TestObserve_movedStartKeepsIDs(t *testing.T) {
	t.Parallel()
	moved := concert("Concert", 21)
	kept := moved
	kept.Instances = []happening.Instance{{
		ID: evening.Instances[0].ID, Status: happening.Scheduled,
		Occurrences: []happening.Occurrence{moved.Instances[0].Occurrences[0]},
	}}
	kept.Instances[0].Occurrences[0].ID = evening.Instances[0].Occurrences[0].ID
	aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(observe(moved, block)).
		Then(happening.Revised{
			SourceID: site,
			Details:  kept,
			Source:   block,
			At:       now,
		}, changed(kept, 0, func(c *happening.OccurrenceChanged) {
			c.PreviousStart = &evening.Instances[0].Occurrences[0].Start
		}))
}

func TestDigest_distinguishesViews(t *testing.T) {
	t.Parallel()
	digest := func(d happening.Details, b happening.Block) []byte {
		t.Helper()
		sum := must.Get(happening.Digest(d, b, happening.FromOwnPage))(t)
		return sum
	}
	same := digest(evening, block)
	assert.True(t, bytes.Equal(same, digest(concert("Concert", 20), block)), "one view has two digests")
	assert.True(t, !bytes.Equal(same, digest(concert("Concert", 21), block)) && !bytes.Equal(same, digest(evening, post)),
		"two views have one digest")
	if listed, err := happening.Digest(evening, block, happening.FromListing); err != nil || bytes.Equal(same, listed) {
		t.Error("a listing's view has the digest of the page's own", err)
	}
}

func TestLast(t *testing.T) {
	t.Parallel()
	if last := evening.Last(); !last.Equal(time.Date(2026, 12, 5, 22, 0, 0, 0, time.UTC)) {
		t.Errorf("last = %s, want the end of the occurrence", last)
	}
	open := concert("Concert", 20)
	open.Instances[0].Occurrences[0].End = nil
	if last := open.Last(); !last.Equal(time.Date(2026, 12, 5, 20, 0, 0, 0, time.UTC)) {
		t.Errorf("last = %s, want the start if no end is known", last)
	}
	if last := (happening.Details{}).Last(); !last.IsZero() {
		t.Errorf("last = %s without occurrences", last)
	}
}

// A happening is over when its last date has passed, or no source shows it, and nothing was recorded since.
func TestOver(t *testing.T) {
	t.Parallel()
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	source, other := uuid.New(), uuid.New()
	on := func(start time.Time) happening.Details {
		return happening.Details{Instances: []happening.Instance{{Occurrences: []happening.Occurrence{{Start: start}}}}}
	}
	shown := func(by uuid.UUID, d happening.Details) happening.Event {
		return happening.Observed{SourceID: by, Details: d, At: noon}
	}
	stale := happening.WentStale{SourceID: source, At: noon.Add(time.Hour)}
	for name, c := range map[string]struct {
		events []happening.Event
		want   time.Time
	}{
		"dated":                     {[]happening.Event{shown(source, on(noon.AddDate(0, 0, 1)))}, noon.AddDate(0, 0, 1)},
		"observed when it was over": {[]happening.Event{shown(source, on(noon.AddDate(0, 0, -1)))}, noon},
		"changed when it was over":  {[]happening.Event{shown(source, on(noon.AddDate(0, 0, -1))), stale}, stale.At},
		"the last date of two": {
			[]happening.Event{shown(source, on(noon.AddDate(0, 0, 1))), shown(other, on(noon.AddDate(0, 0, 3)))},
			noon.AddDate(0, 0, 3),
		},
		"undated":                  {[]happening.Event{shown(source, happening.Details{})}, time.Time{}},
		"undated, no longer shown": {[]happening.Event{shown(source, happening.Details{}), stale}, stale.At},
		"undated beside a date": {
			[]happening.Event{shown(source, happening.Details{}), shown(other, on(noon.AddDate(0, 0, 1)))},
			noon.AddDate(0, 0, 1),
		},
	} {
		var state happening.State
		for _, event := range c.events {
			state = happening.Aggregate.Evolve(state, event)
		}
		got := state.OverAt()
		assert.True(t, got.Equal(c.want), "%s: over at %v, want %v", name, got, c.want)
		if state.Over(c.want) || !c.want.IsZero() && !state.Over(c.want.Add(1)) {
			t.Errorf("%s: over is another", name)
		}
		again := happening.ObserveUnlessRetired{
			Observe: happening.Observe{SourceID: source, Details: on(noon.AddDate(1, 0, 0)), At: noon},
			Before:  c.want.Add(1),
		}
		_, err := happening.Aggregate.Decide(state, again)
		assert.True(t, errors.Is(err, happening.ErrRetired) != c.want.IsZero(), "%s: observed again: %v", name, err)
	}
}
