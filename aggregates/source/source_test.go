package source_test

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"carillon/aggregates/source"
	"carillon/eventstore/aggregatetest"
)

var (
	noon       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	registered = source.Registered{Type: source.TypeSite, URL: "https://example.org/", Timezone: "Europe/Rome", At: noon}
	started    = source.CollectionStarted{Number: 1, At: noon}
	cursor     = json.RawMessage(`{"etag":"abc"}`)
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[source.Event](t, source.Events, registered, source.CollectionRequested{At: noon}, started,
		source.CollectionCompleted{
			Number: 1, Counts: source.Counts{Pages: 1, Observed: 5, New: 2, Revised: 1, WentStale: 1}, Cursor: cursor,
			Notes:           []source.Note{{Code: "skipped-event", Text: "an event has no date"}},
			IntervalSeconds: 900, NextAt: noon.Add(15 * time.Minute), At: noon,
		},
		source.CollectionFailed{Number: 1, Reason: "http_status", Message: "http status 503", Failures: 2, NextAt: noon.Add(time.Hour), At: noon},
		source.CredentialsMissing{Number: 1, Message: "no token", NextAt: noon.Add(time.Hour), At: noon},
		source.JavaScriptNeeded{Number: 1, Message: "scripts only", NextAt: noon.Add(12 * time.Hour), At: noon})
}

func TestRegister(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).
		When(source.Register{Type: source.TypeSite, URL: "https://example.org/", Timezone: "Europe/Rome", At: noon}).Then(registered)
}

func TestTheSameSourceHasOneID(t *testing.T) {
	t.Parallel()
	id := source.ID(source.TypeSite, "https://example.org/", "", "Europe/Rome")
	if id != source.ID(source.TypeSite, "https://example.org/", "", "Europe/Rome") {
		t.Error("the same source has two ids")
	}
	if id == source.ID(source.TypeSite, "https://example.org/", "", "Europe/Paris") || id == source.ID(source.TypeSitemap, "https://example.org/", "", "Europe/Rome") {
		t.Error("two sources have one id")
	}
}

func TestOneVisitBeginsOnce(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).Of(registered).
		When(source.Start{Number: 1, At: noon}).Then(started).
		When(source.Start{Number: 1, At: noon.Add(time.Minute)}).Then().
		// The process died: the visit begins anew under the next number, and the old one can't end any more.
		When(source.Start{Number: 2, Abandons: true, At: noon}).Then(source.CollectionStarted{Number: 2, At: noon}).
		When(source.Complete{Number: 1, At: noon}).Refused(source.ErrNumber)
}

// A read model that lags takes a visit for cut off that has just ended.
func TestAVisitThatEndedIsNotAbandoned(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).Of(registered, started,
		source.CollectionCompleted{Number: 1, IntervalSeconds: 900, NextAt: noon.Add(15 * time.Minute), At: noon}).
		When(source.Start{Number: 2, Abandons: true, At: noon}).Then().
		When(source.Start{Number: 2, At: noon}).Then(source.CollectionStarted{Number: 2, At: noon})
}

func TestScheduleAdapts(t *testing.T) {
	t.Parallel()
	scenario := aggregatetest.Stream(t, source.Aggregate).Of(registered, started).
		When(source.Complete{Number: 1, Counts: source.Counts{New: 3}, Cursor: cursor, At: noon}).
		Then(source.CollectionCompleted{
			Number: 1, Counts: source.Counts{New: 3}, Cursor: cursor, IntervalSeconds: 900, NextAt: noon.Add(15 * time.Minute), At: noon,
		})
	scenario.Of(source.CollectionStarted{Number: 2, At: noon}).
		When(source.Complete{Number: 2, NotModified: true, Spread: 1, At: noon}).
		Then(source.CollectionCompleted{
			Number: 2, NotModified: true, IntervalSeconds: 1350, NextAt: noon.Add(1485 * time.Second), At: noon,
		})
}

func TestFailuresBackOff(t *testing.T) {
	t.Parallel()
	scenario := aggregatetest.Stream(t, source.Aggregate).Of(registered)
	for i, minutes := range []int{5, 10, 20, 40, 80, 160, 320, 640, 1280, 1440, 1440} {
		wait := time.Duration(minutes) * time.Minute
		number := i + 1
		scenario.Of(source.CollectionStarted{Number: number, At: noon}).
			When(source.Fail{Number: number, Reason: "timeout", Message: "no answer", At: noon}).
			Then(source.CollectionFailed{
				Number: number, Reason: "timeout", Message: "no answer", Failures: number, NextAt: noon.Add(wait), At: noon,
			})
	}
	scenario.Of(source.CollectionStarted{Number: 12, At: noon}).When(source.Complete{Number: 12, At: noon})
	if failures := scenario.State().Failures; failures != 0 {
		t.Errorf("%d failures after a success", failures)
	}
}

func TestRetryAfterIsAFloor(t *testing.T) {
	t.Parallel()
	for asked, wait := range map[time.Duration]time.Duration{time.Second: 5 * time.Minute, time.Hour: time.Hour, 100 * time.Hour: 24 * time.Hour} {
		aggregatetest.Stream(t, source.Aggregate).Of(registered, started).
			When(source.Fail{Number: 1, Reason: "http_status", RetryAfter: asked, At: noon}).
			Then(source.CollectionFailed{Number: 1, Reason: "http_status", Failures: 1, NextAt: noon.Add(wait), At: noon})
	}
}

func TestScriptsAreNoFailure(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).Of(registered, source.CollectionFailed{Failures: 3}, started).
		When(source.NeedJavaScript{Number: 1, Message: "scripts only", At: noon}).
		Then(source.JavaScriptNeeded{Number: 1, Message: "scripts only", NextAt: noon.Add(12 * time.Hour), At: noon})
}

func TestCredentialsAreNoFailure(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, source.Aggregate).Of(registered, started).
		When(source.LackCredentials{Number: 1, Message: "no token", At: noon}).
		Then(source.CredentialsMissing{Number: 1, Message: "no token", NextAt: noon.Add(time.Hour), At: noon})
}

func TestUnknownSource(t *testing.T) {
	t.Parallel()
	for _, command := range []source.Command{
		source.Start{Number: 1}, source.Complete{Number: 1}, source.Fail{Number: 1}, source.LackCredentials{}, source.NeedJavaScript{}, source.Request{},
	} {
		aggregatetest.Stream(t, source.Aggregate).When(command).Refused(source.ErrUnknown)
	}
	aggregatetest.Stream(t, source.Aggregate).Of(registered).Repeatable().
		When(source.Request{At: noon}).Then(source.CollectionRequested{At: noon})
}

// However visits go, the next one is 5 minutes to 26.4 hours away.
func TestScheduleKeepsItsBounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		state := source.Aggregate.Evolve(source.State{}, registered)
		for number := 1; number <= rapid.IntRange(1, 60).Draw(t, "visits"); number++ {
			state = source.Aggregate.Evolve(state, source.CollectionStarted{Number: number, At: noon})
			spread := rapid.Float64().Draw(t, "spread")
			var command source.Command = source.Fail{Number: number, Spread: spread, At: noon}
			if rapid.Bool().Draw(t, "success") {
				command = source.Complete{Number: number, Counts: source.Counts{Revised: rapid.IntRange(0, 1).Draw(t, "changed")}, Spread: spread, At: noon}
			}
			events, err := source.Aggregate.Decide(state, command)
			if err != nil || len(events) != 1 {
				t.Fatalf("%d events, %v", len(events), err)
			}
			var next time.Time
			switch e := events[0].(type) {
			case source.CollectionCompleted:
				next = e.NextAt
			case source.CollectionFailed:
				next = e.NextAt
			}
			if wait := next.Sub(noon); wait < 5*time.Minute || wait > 24*time.Hour*11/10 {
				t.Fatalf("next visit in %s", wait)
			}
			state = source.Aggregate.Evolve(state, events[0])
		}
	})
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	unknown, number := source.ErrUnknown, source.ErrNumber
	aggregatetest.Table(t, source.Aggregate).
		State("none").
		State("waiting", registered).
		State("collecting", registered, started).
		State("waiting again", registered, started, source.CollectionCompleted{Number: 1, At: noon}).
		When(source.Register{Type: source.TypeSite}, "Registered", "", "", "").
		When(source.Request{}, unknown, "CollectionRequested", "CollectionRequested", "CollectionRequested").
		When(source.Start{Number: 1}, unknown, "CollectionStarted", "", "").
		When(source.Start{Number: 2}, unknown, "CollectionStarted", "CollectionStarted", "CollectionStarted").
		When(source.Start{Number: 2, Abandons: true}, unknown, "", "CollectionStarted", "").
		When(source.Complete{Number: 1}, unknown, number, "CollectionCompleted", "").
		When(source.Fail{Number: 1}, unknown, number, "CollectionFailed", "").
		When(source.LackCredentials{Number: 1}, unknown, number, "CredentialsMissing", "").
		When(source.NeedJavaScript{Number: 1}, unknown, number, "JavaScriptNeeded", "").
		When(source.Complete{Number: 2}, unknown, number, number, number)
}
