package source_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/aggregates/source"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
)

var (
	noon       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	registered = source.Registered{
		Type:     source.TypeSite,
		URL:      "https://example.org/",
		Timezone: "Europe/Rome",
		At:       noon,
	}
	started = source.CollectionStarted{Number: 1, At: noon}
	ok      = source.CollectionCompleted{Number: 1, At: noon}
	cursor  = json.RawMessage(`{"etag":"abc"}`)
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[source.Event](t, source.Events, registered, source.CollectionRequested{At: noon}, started,
		source.CollectionCompleted{
			Number: 1,
			Counts: source.Counts{
				Pages:     1,
				Observed:  5,
				New:       2,
				Revised:   1,
				WentStale: 1,
			},
			Cursor:          cursor,
			Notes:           []source.Note{{Code: "skipped-event", Text: "an event has no date"}},
			IntervalSeconds: 900,
			NextAt:          noon.Add(15 * time.Minute),
			At:              noon,
		},
		source.CollectionFailed{
			Number:   1,
			Reason:   "http_status",
			Message:  "http status 503",
			Failures: 2,
			NextAt:   noon.Add(time.Hour),
			At:       noon,
		},
		source.CredentialsMissing{
			Number:  1,
			Message: "no token",
			NextAt:  noon.Add(time.Hour),
			At:      noon,
		},
		source.JavaScriptNeeded{
			Number:  1,
			Message: "scripts only",
			NextAt:  noon.Add(12 * time.Hour),
			At:      noon,
		},
		source.Paused{Reason: "the owner objects", At: noon}, source.Resumed{At: noon},
		source.Revised{Settings: settings, At: noon})
}

var settings = source.Settings{
	IgnoreLists: true,
	Selectors:   source.Selectors{Event: "#programme > li", Title: "b", Start: ".when"},
}

// Revised settings replace all of them; the same again change nothing.
func TestRevise(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).Of(registered).
		When(source.Revise{At: noon}).Then().
		When(source.Revise{Settings: settings, At: noon}).Then(source.Revised{Settings: settings, At: noon}).
		When(source.Revise{Settings: settings, At: noon.Add(time.Hour)}).Then().
		When(source.Revise{At: noon}).Then(source.Revised{At: noon})
}

func TestIDDerivation(t *testing.T) {
	t.Parallel()
	id := source.ID(source.TypeSite, "https://example.org/", "", "Europe/Rome")
	assert.Equal(t, id, source.ID(source.TypeSite, "https://example.org/", "", "Europe/Rome"),
		"the same source has two ids")
	assert.True(t, id != source.ID(source.TypeSite, "https://example.org/", "", "Europe/Paris") &&
		id != source.ID(source.TypeSitemap, "https://example.org/", "", "Europe/Rome"), "two sources have one id")
}

// A requested walk is recorded from its beginning to its end, whatever it finds.
func TestRequestedWalk(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).Of(registered, ok).
		When(source.Start{Number: 2, At: noon}).Then(source.CollectionStarted{Number: 2, At: noon}).
		When(source.Start{Number: 2, At: noon.Add(time.Minute)}).Then().
		When(source.Complete{
			Number:      2,
			NotModified: true,
			Interval:    time.Hour,
			NextAt:      noon.Add(time.Hour),
			At:          noon,
		}).
		Then(source.CollectionCompleted{
			Number:          2,
			NotModified:     true,
			IntervalSeconds: 3600,
			NextAt:          noon.Add(time.Hour),
			At:              noon,
		}).
		When(source.Complete{Number: 2, At: noon}).Then()
}

// Routine walks without changes are not recorded.
func TestRoutineWalk(t *testing.T) {
	t.Parallel()
	notes := []source.Note{{Code: "skipped-event", Text: "an event has no date"}}
	failed := source.CollectionFailed{
		Number:   6,
		Reason:   "timeout",
		Failures: 1,
		At:       noon,
	}
	aggregatetest.Stream(t, source.Aggregate).Of(registered, ok).
		When(source.Complete{Number: 2, Counts: source.Counts{Pages: 1, Observed: 4}, At: noon}).Then().
		When(source.Complete{Number: 3, NotModified: true, At: noon}).Then().
		When(source.Complete{Number: 4, Counts: source.Counts{Revised: 1}, At: noon}).
		Then(source.CollectionCompleted{Number: 4, Counts: source.Counts{Revised: 1}, At: noon}).
		When(source.Complete{Number: 5, Notes: notes, At: noon}).Then(source.CollectionCompleted{Number: 5, Notes: notes,
		At: noon}).
		When(source.Fail{
			Number:   6,
			Reason:   "timeout",
			Failures: 1,
			At:       noon,
		}).Then(failed).
		When(source.Fail{
			Number:   7,
			Reason:   "timeout",
			Failures: 2,
			At:       noon,
		}).Then().
		When(source.Fail{
			Number:   8,
			Reason:   "robots",
			Failures: 3,
			At:       noon,
		}).
		Then(source.CollectionFailed{
			Number:   8,
			Reason:   "robots",
			Failures: 3,
			At:       noon,
		}).
		When(source.LackCredentials{Number: 9, Message: "no token", At: noon}).
		Then(source.CredentialsMissing{Number: 9, Message: "no token", At: noon}).
		When(source.LackCredentials{Number: 10, Message: "no token", At: noon}).Then().
		When(source.NeedJavaScript{Number: 11, Message: "scripts", At: noon}).
		Then(source.JavaScriptNeeded{Number: 11, Message: "scripts", At: noon}).
		When(source.Complete{Number: 12, NotModified: true, At: noon}).
		Then(source.CollectionCompleted{Number: 12, NotModified: true, At: noon}).
		// of a process that was suspended
		When(source.Complete{Number: 7, Counts: source.Counts{New: 1}, At: noon}).Refused(source.ErrNumber)
}

// A paused source does not begin a walk. The result of a current one is still recorded.
func TestPause(t *testing.T) {
	t.Parallel()
	paused := source.Paused{Reason: "the owner objects", At: noon}
	aggregatetest.Stream(t, source.Aggregate).Of(registered, source.CollectionStarted{Number: 2, At: noon}).
		When(source.Pause{Reason: "the owner objects", At: noon}).Then(paused).
		When(source.Pause{Reason: "the owner objects", At: noon.Add(time.Hour)}).Then().
		When(source.Pause{Reason: "by letter of 3 May", At: noon.Add(time.Hour)}).
		Then(source.Paused{Reason: "by letter of 3 May", At: noon.Add(time.Hour)}).
		When(source.Complete{Number: 2, Interval: time.Hour, At: noon}).
		Then(source.CollectionCompleted{Number: 2, IntervalSeconds: 3600, At: noon}).
		When(source.Resume{At: noon.Add(2 * time.Hour)}).Then(source.Resumed{At: noon.Add(2 * time.Hour)}).
		When(source.Resume{At: noon.Add(3 * time.Hour)}).Then().
		When(source.Start{Number: 3, At: noon}).Then(source.CollectionStarted{Number: 3, At: noon})
}

// The next walk ends one whose stored state was lost.
func TestLostWalk(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).Of(registered, started).
		When(source.Complete{Number: 2, At: noon}).Then(source.CollectionCompleted{Number: 2, At: noon})
}

func TestScheduleAdapts(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from    time.Duration
		changed bool
		want    time.Duration
	}{
		{30 * time.Minute, true, 15 * time.Minute}, {15 * time.Minute, true, 10 * time.Minute},
		{10 * time.Minute, false, 15 * time.Minute},
		{20 * time.Hour, false, 24 * time.Hour}, {0, false, 10 * time.Minute},
	} {
		assert.Equal(t, source.Adapt(tt.from, tt.changed), tt.want, "%s, changed %t", tt.from, tt.changed)
	}
	assert.Equal(t, source.Spread(900*time.Second, 1), 990*time.Second, "spread")
}

func TestFailuresBackOff(t *testing.T) {
	t.Parallel()
	for i, minutes := range []int{5, 10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440} {
		if got, want := source.BackOff(i+1, 0), time.Duration(minutes)*time.Minute; got != want {
			t.Errorf("after %d failures %s, want %s", i+1, got, want)
		}
	}
	for asked, wait := range map[time.Duration]time.Duration{time.Second: 5 * time.Minute, time.Hour: time.Hour,
		100 * time.Hour: 24 * time.Hour} {
		assert.Equal(t, source.BackOff(1, asked), wait, "asked for %s", asked)
	}
}

// The interval of walks is always between 5 minutes and 26.4 hours.
func TestScheduleLimits(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		interval, failures := source.FirstInterval, 0
		for range rapid.IntRange(1, 60).Draw(t, "walks") {
			var wait time.Duration
			if rapid.Bool().Draw(t, "success") {
				interval, failures = source.Adapt(interval, rapid.Bool().Draw(t, "changed")), 0
				wait = interval
			} else {
				failures++
				wait = source.BackOff(failures, time.Duration(rapid.Int64().Draw(t, "asked")))
			}
			if wait = source.Spread(wait, rapid.Float64().Draw(t, "share")); wait < 5*time.Minute || wait > 24*time.Hour*11/10 {
				t.Fatalf("next walk in %s", wait)
			}
		}
	})
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	unknown, number, paused := source.ErrUnknown, source.ErrNumber, source.ErrPaused
	aggregatetest.Table(t, source.Aggregate).
		State("none").
		State("waiting", registered).
		State("collecting", registered, source.CollectionStarted{Number: 2, At: noon}).
		State("waiting again", registered, ok, source.CollectionCompleted{Number: 2, At: noon}).
		State("paused", registered, source.Paused{Reason: "the owner objects", At: noon}).
		State("paused while collecting", registered, source.CollectionStarted{Number: 2, At: noon},
			source.Paused{Reason: "the owner objects", At: noon}).
		When(source.Register{Type: source.TypeSite}, "Registered", "", "", "", "", "").
		When(source.Request{}, unknown, "CollectionRequested", "CollectionRequested", "CollectionRequested", paused, paused).
		When(source.Start{Number: 2}, unknown, "CollectionStarted", "", "", paused, paused).
		When(source.Start{Number: 3}, unknown, "CollectionStarted", "CollectionStarted", "CollectionStarted", paused, paused).
		When(source.Complete{Number: 1}, unknown, "CollectionCompleted", number, number, "CollectionCompleted", number).
		When(source.Complete{Number: 2}, unknown, "CollectionCompleted", "CollectionCompleted", "", "CollectionCompleted",
			"CollectionCompleted").
		When(source.Complete{Number: 3}, unknown, "CollectionCompleted", "CollectionCompleted", "", "CollectionCompleted",
			"CollectionCompleted").
		When(source.Fail{Number: 3, Reason: "timeout"}, unknown, "CollectionFailed", "CollectionFailed", "CollectionFailed",
			"CollectionFailed", "CollectionFailed").
		When(source.LackCredentials{Number: 3}, unknown, "CredentialsMissing", "CredentialsMissing", "CredentialsMissing",
			"CredentialsMissing", "CredentialsMissing").
		When(source.NeedJavaScript{Number: 3}, unknown, "JavaScriptNeeded", "JavaScriptNeeded", "JavaScriptNeeded",
			"JavaScriptNeeded", "JavaScriptNeeded").
		When(source.Pause{Reason: "the owner objects"}, unknown, "Paused", "Paused", "Paused", "", "").
		When(source.Pause{Reason: "another"}, unknown, "Paused", "Paused", "Paused", "Paused", "Paused").
		When(source.Resume{}, unknown, "", "", "", "Resumed", "Resumed").
		When(source.Revise{}, unknown, "", "", "", "", "").
		When(source.Revise{Settings: settings}, unknown, "Revised", "Revised", "Revised", "Revised", "Revised")
}
