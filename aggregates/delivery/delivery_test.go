package delivery_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/delivery"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	org    = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	dest   = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	replay = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	ok      = delivery.Outcome{ResponseStatus: 204, DurationMicros: 12_000}
	refused = delivery.Outcome{
		ResponseStatus: 500,
		ResponseBody:   []byte("sealed"),
		FailureReason:  "http_status",
		ErrorMessage:   "the endpoint answered 500",
		DurationMicros: 1_000_000,
	}
	schedule = delivery.Retry{Schedule: []time.Duration{5 * time.Second, 5 * time.Minute}}
	again    = []uuid.UUID{uuid.MustParse("44444444-4444-4444-8444-444444444444")}
	retryNow = delivery.RequestRetry{Organization: org, Destination: dest, At: noon}

	retryWanted = delivery.RetryRequested{Organization: org, Destination: dest, At: noon}

	wanted = delivery.ReplayRequested{
		Organization: org,
		Destination:  dest,
		Replay:       replay,
		At:           noon,
	}

	reinstated = delivery.Reinstated{
		Organization:  org,
		Destination:   dest,
		Subscriptions: again,
		At:            noon,
	}
)

func attempt(number int, outcome delivery.Outcome) delivery.RecordAttempt {
	return delivery.RecordAttempt{
		Organization: org,
		Destination:  dest,
		Type:         "news.item.added",
		Number:       number,
		Trigger:      delivery.Automatic,
		Outcome:      outcome,
		At:           noon,
		Retry:        schedule,
	}
}

func attempted(number int, outcome delivery.Outcome, status delivery.Status, next time.Time) delivery.Attempted {
	return delivery.Attempted{
		Organization:  org,
		Destination:   dest,
		Type:          "news.item.added",
		Number:        number,
		Trigger:       delivery.Automatic,
		Outcome:       outcome,
		Status:        status,
		NextAttemptAt: next,
		At:            noon,
	}
}

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[delivery.Event](t, delivery.Events,
		attempted(2, refused, delivery.StatusPending, noon.Add(time.Minute)),
		delivery.Superseded{By: replay, At: noon}, delivery.Discarded{Reason: "subscription deleted", At: noon}, wanted,
		delivery.ReplayDropped{Replay: replay, Reason: "feed deleted", At: noon}, reinstated, retryWanted,
	)
	answered := refused
	answered.ResponseHeaders = []byte("sealed headers")
	_, data, err := delivery.Events.Encode(attempted(2, answered, delivery.StatusFailed, time.Time{}))
	must.OK(t, err)
	aggregatetest.GoldenFile(t, "delivery.attempted.v1.headers.json", data)
}

// Two pauses make three attempts.
func TestRetriesUntilScheduleEnds(t *testing.T) {
	t.Parallel()
	ended := noon.Add(refused.Duration())
	aggregatetest.Stream(t, delivery.Aggregate).
		Repeatable().When(attempt(1, refused)).Then(attempted(1, refused, delivery.StatusPending, ended.Add(5*time.Second))).
		Repeatable().When(attempt(2, refused)).Then(attempted(2, refused, delivery.StatusPending, ended.Add(5*time.Minute))).
		Repeatable().When(attempt(3, refused)).Then(attempted(3, refused, delivery.StatusFailed, time.Time{}))
}

// If two drivers send the same retry, the schedule follows the one that was recorded first.
func TestRecordAttempt_lostRace(t *testing.T) {
	t.Parallel()
	due := noon.Add(refused.Duration() + 5*time.Second)
	lost := attempted(2, refused, delivery.StatusPending, due)
	lost.RenumberedFrom = 1
	again := attempt(1, refused)
	again.At = noon.Add(time.Second)
	lost.At = again.At
	third := attempted(3, refused, delivery.StatusPending, noon.Add(refused.Duration()+5*time.Minute))
	aggregatetest.Stream(t, delivery.Aggregate).
		Repeatable().When(attempt(1, refused)).Then(attempted(1, refused, delivery.StatusPending, due)).
		Repeatable().When(again).Then(lost).
		Repeatable().When(attempt(3, refused)).Then(third)

	gone := attempt(1, refused)
	gone.Retry.Never = true
	ended := attempted(2, refused, delivery.StatusFailed, time.Time{})
	ended.RenumberedFrom = 1
	aggregatetest.Stream(t, delivery.Aggregate).Of(attempted(1, refused, delivery.StatusPending, due)).
		Repeatable().When(gone).Then(ended)
}

func TestRetryAfterIsAFloor(t *testing.T) {
	t.Parallel()
	retry := delivery.Retry{Schedule: []time.Duration{5 * time.Second}, Floor: time.Minute}
	if next, _ := retry.Next(1, noon); !next.Equal(noon.Add(time.Minute)) {
		t.Errorf("next = %s, want a minute later", next)
	}
	retry.Spread, retry.Jitter = 0.2, 0.5
	if next, _ := retry.Next(1, noon); !next.Equal(noon.Add(69 * time.Second)) {
		t.Errorf("next = %s, want it spread above the floor", next)
	}
	retry.Floor, retry.Spread = time.Second, 0
	if next, _ := retry.Next(1, noon); !next.Equal(noon.Add(5 * time.Second)) {
		t.Errorf("next = %s, want 5 s later", next)
	}
}

func TestJitterStaysWithinItsSpread(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		wait := time.Duration(rapid.Int64Range(1, int64(24*time.Hour)).Draw(t, "wait"))
		retry := delivery.Retry{Schedule: []time.Duration{wait}, Spread: 0.2, Jitter: rapid.Float64Range(-1, 1).
			Draw(t, "jitter")}
		next, left := retry.Next(1, noon)
		got := next.Sub(noon)
		if !left || float64(got) < 0.8*float64(wait)-1000 || float64(got) > 1.2*float64(wait)+1000 {
			t.Fatalf("wait %s became %s", wait, got)
		}
	})
}

func TestReplay(t *testing.T) {
	t.Parallel()
	request := delivery.RequestReplay{
		Organization: org,
		Destination:  dest,
		Replay:       replay,
		At:           noon,
	}
	failed := attempted(1, refused, delivery.StatusFailed, time.Time{})
	manual := attempt(2, ok)
	manual.Trigger = delivery.ManualReplay
	done := attempted(2, ok, delivery.StatusSucceeded, time.Time{})
	done.Trigger = delivery.ManualReplay
	aggregatetest.Stream(t, delivery.Aggregate).Of(failed).When(request).Then(wanted).
		Repeatable().When(manual).Then(done)

	other := request
	other.Replay = uuid.New()
	aggregatetest.Stream(t, delivery.Aggregate).Of(failed, wanted).When(other).Refused(delivery.ErrReplaying)
	aggregatetest.Stream(t, delivery.Aggregate).When(request).Refused(delivery.ErrInFlight)
	aggregatetest.Stream(t, delivery.Aggregate).Of(delivery.Superseded{By: replay, At: noon}).When(request).
		Refused(delivery.ErrSuperseded)
	aggregatetest.Stream(t, delivery.Aggregate).Of(delivery.Discarded{At: noon}).When(request).
		Refused(delivery.ErrDiscarded)
}

// The attempt after a retry is the next one of the schedule, which goes on from there.
func TestRetry_takesItsPlaceInSchedule(t *testing.T) {
	t.Parallel()
	failed := attempted(1, refused, delivery.StatusPending, noon.Add(time.Hour))
	ended := noon.Add(refused.Duration())
	aggregatetest.Stream(t, delivery.Aggregate).Of(failed).
		When(retryNow).Then(retryWanted).
		When(retryNow).Then(). // two callers at once
		Repeatable().When(attempt(2, refused)).Then(attempted(2, refused, delivery.StatusPending, ended.Add(5*time.Minute))).
		When(retryNow).Then(retryWanted).
		Repeatable().When(attempt(3, ok)).Then(attempted(3, ok, delivery.StatusSucceeded, time.Time{})).
		When(retryNow).Refused(delivery.ErrEnded)
	aggregatetest.Stream(t, delivery.Aggregate).Of(attempted(1, refused, delivery.StatusPending, noon)).
		When(retryNow).Then() // it is due
}

// A request that was in flight when the retry was recorded is the attempt that was asked for.
func TestRetry_recordedInFlight(t *testing.T) {
	t.Parallel()
	next := noon.Add(refused.Duration() + 5*time.Second)
	aggregatetest.Stream(t, delivery.Aggregate).Of(retryWanted).
		Repeatable().When(attempt(1, refused)).Then(attempted(1, refused, delivery.StatusPending, next))
}

func TestRetryRefused(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		status delivery.Status
		change func(*delivery.RequestRetry)
		want   string
	}{
		{"", func(c *delivery.RequestRetry) { c.Sending = true }, "is being sent, or is next in line"},
		{"", func(c *delivery.RequestRetry) { c.Off, c.Sending = true, true }, `"status": "enabled"`},
		{delivery.StatusFailed, func(c *delivery.RequestRetry) { c.Off = true }, "/replay sends it again"},
		{delivery.StatusSucceeded, func(*delivery.RequestRetry) {}, "(succeeded)"},
		{delivery.StatusSuperseded, func(*delivery.RequestRetry) {}, "replay"},
		{delivery.StatusDiscarded, func(*delivery.RequestRetry) {}, "backfill"},
	} {
		request := retryNow
		c.change(&request)
		events, err := delivery.Aggregate.Decide(delivery.State{Status: c.status}, request)
		assert.True(t, len(events) == 0 && err != nil && strings.Contains(err.Error(), c.want),
			"%s: %v, %v; want %q", c.status, events, err, c.want)
	}
}

// Once it was promised to be sent, a newer one does not replace it.
func TestRetry_notSuperseded(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, delivery.Aggregate).When(retryNow).Then(retryWanted).
		When(delivery.Supersede{By: replay, At: noon}).Then()
}

// A reinstated delivery has its whole schedule again, and its attempts continue to count.
func TestReinstate_restartsSchedule(t *testing.T) {
	t.Parallel()
	ended := noon.Add(refused.Duration())
	aggregatetest.Stream(t, delivery.Aggregate).
		Of(attempted(1, refused, delivery.StatusPending, ended.Add(5*time.Second)), delivery.Discarded{At: noon}).
		When(delivery.Reinstate{
			Organization:  org,
			Destination:   dest,
			Subscriptions: again,
			At:            noon,
		}).Then(reinstated).
		Repeatable().When(attempt(2, refused)).Then(attempted(2, refused, delivery.StatusPending, ended.Add(5*time.Second))).
		When(delivery.Reinstate{}).Then()
}

func TestDiscardedErrorNamesCause(t *testing.T) {
	t.Parallel()
	request := delivery.RequestReplay{Replay: wanted.Replay, At: wanted.At}
	for _, reason := range []string{"its last subscription was deleted", "the feed of its event was deleted"} {
		discarded := delivery.Aggregate.Evolve(delivery.State{}, delivery.Discarded{Reason: reason})
		_, err := delivery.Aggregate.Decide(discarded, request)
		assert.True(t, errors.Is(err, delivery.ErrDiscarded) && strings.Contains(err.Error(), `discarded ("`+reason+`"): `),
			"%q: %v", reason, err)
	}
}

// A delivery that is over for longer than it is kept may be removed at any moment.
func TestReplay_retired(t *testing.T) {
	t.Parallel()
	gaveUp := attempted(1, refused, delivery.StatusFailed, time.Time{})
	ends := gaveUp.At.Add(refused.Duration())
	request := delivery.RequestReplay{Replay: wanted.Replay, At: wanted.At, RetiredBefore: ends}
	aggregatetest.Stream(t, delivery.Aggregate).Of(gaveUp).When(request).Then(delivery.ReplayRequested{
		Replay: wanted.Replay,
		At:     wanted.At,
	})
	request.RetiredBefore = ends.Add(time.Microsecond)
	aggregatetest.Stream(t, delivery.Aggregate).Of(gaveUp).When(request).Refused(delivery.ErrRetired)
	aggregatetest.Stream(t, delivery.Aggregate).Of(attempted(1, refused, delivery.StatusPending, noon)).When(request).
		Refused(delivery.ErrInFlight)
	again := delivery.Reinstate{At: ends, RetiredBefore: noon.Add(time.Microsecond)}
	aggregatetest.Stream(t, delivery.Aggregate).Of(delivery.Discarded{At: noon}).When(again).Then()
}

func TestDropReplay(t *testing.T) {
	t.Parallel()
	failed := attempted(1, refused, delivery.StatusFailed, time.Time{})
	dropped := delivery.ReplayDropped{Replay: replay, Reason: "feed deleted", At: noon}
	scenario := aggregatetest.Stream(t, delivery.Aggregate).Of(failed, wanted).
		When(delivery.DropReplay{Replay: uuid.New()}).Then().
		When(delivery.DropReplay(dropped)).Then(dropped)
	assert.Equal(t, scenario.State().Status, delivery.StatusFailed, "status … afterwards")
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	attempted := func(status delivery.Status) delivery.Event {
		return delivery.Attempted{
			Number:  1,
			Trigger: delivery.Automatic,
			Status:  status,
			At:      noon,
		}
	}
	request := delivery.RequestReplay{
		Organization: org,
		Destination:  dest,
		Replay:       replay,
		At:           noon,
	}
	aggregatetest.Table(t, delivery.Aggregate).
		State("fresh").
		State("tried", attempted(delivery.StatusPending)).
		State("succeeded", attempted(delivery.StatusSucceeded)).
		State("failed", attempted(delivery.StatusFailed)).
		State("superseded", delivery.Superseded{At: noon}).
		State("discarded", delivery.Discarded{At: noon}).
		When(delivery.RecordAttempt{Number: 1}, "Attempted", "Attempted", "Attempted", "Attempted", "Attempted", "Attempted").
		When(delivery.Supersede{}, "Superseded", "", "", "", "", "").
		When(delivery.Discard{}, "Discarded", "Discarded", "", "", "", "").
		When(delivery.Reinstate{}, "", "", "", "", "", "Reinstated").
		When(delivery.DropReplay{Replay: replay}, "", "", "", "", "", "").
		When(request, delivery.ErrInFlight, delivery.ErrInFlight, "ReplayRequested", "ReplayRequested",
			delivery.ErrSuperseded, delivery.ErrDiscarded).
		When(delivery.RequestRetry{}, "RetryRequested", "RetryRequested", delivery.ErrEnded, delivery.ErrEnded,
			delivery.ErrEnded, delivery.ErrEnded)
}
