package query_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/aggregates/retirement"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/destinations"
	"carillon/projections/projecttest"
	"carillon/query"
)

// attempted records a delivery with one attempt.
func (d deliverySide) attempted(to, organization uuid.UUID, at time.Time, took time.Duration, status int) {
	outcome, eventType := delivery.Outcome{ResponseStatus: status, DurationMicros: took.Microseconds()}, "news.item.added"
	if status >= 300 {
		outcome.FailureReason, eventType = "http_status", "news.item.removed"
	}
	d.attempts(uuid.New(), delivery.Attempted{
		Organization: organization,
		Destination:  to,
		Type:         eventType,
		At:           at,
		Outcome:      outcome,
	})
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	foreign, nextDay := uuid.New(), midday.Add(24*time.Hour)
	d.destination(hook, acme, "crm", midday)
	d.destination(other, acme, "erp", midday)
	d.destination(foreign, uuid.New(), "theirs", midday)
	d.attempted(hook, acme, midday.Add(-2*time.Hour), 3*time.Millisecond, 204) // an hour before the range
	for range 2 {
		d.attempted(hook, acme, midday.Add(61*time.Second), 40*time.Millisecond, 204)
	}
	d.attempted(hook, acme, midday.Add(2*time.Minute), 40*time.Millisecond, 500)
	d.attempted(hook, acme, midday.Add(7*time.Minute), 300*time.Microsecond, 204)
	d.attempted(other, acme, midday.Add(7*time.Minute), 40*time.Millisecond, 204)
	d.Project()
	ofAll, ofHook := query.AnswerFilter{}, query.AnswerFilter{Destination: hook}
	for name, c := range map[string]struct {
		of   query.AnswerFilter
		slot time.Duration
		want []query.Answers
	}{
		"of one, by five minutes": {ofHook, 5 * time.Minute, []query.Answers{
			{midday, 11, 2, 1}, {midday.Add(5 * time.Minute), 0, 1, 0},
		}},
		"of one, by the hour":     {ofHook, time.Hour, []query.Answers{{midday, 0, 1, 0}, {midday, 11, 2, 1}}},
		"of all, by the hour":     {ofAll, time.Hour, []query.Answers{{midday, 0, 1, 0}, {midday, 11, 3, 1}}},
		"of one, by the day":      {ofHook, 24 * time.Hour, []query.Answers{{midday, 0, 1, 0}, {midday, 11, 2, 1}}},
		"of another organization": {query.AnswerFilter{Destination: foreign}, time.Hour, nil},
		"of a type": {query.AnswerFilter{Types: []string{"news.item.added"}}, time.Hour, []query.Answers{
			{midday, 0, 1, 0}, {midday, 11, 3, 0},
		}},
		"of a reason": {
			query.AnswerFilter{Destination: hook, Types: []string{"news.*"}, Reason: "http_status"},
			time.Hour, []query.Answers{{midday, 11, 0, 1}},
		},
		"of another reason": {query.AnswerFilter{Reason: "dns"}, time.Hour, nil},
	} {
		found, err := d.Answers(t.Context(), acme, c.of, c.slot, midday, nextDay)
		must.True(t, err == nil && len(found) == len(c.want), "%s: %+v, %v, want %+v", name, found, err, c.want)
		for i := range found {
			if found[i].Slot = found[i].Slot.UTC(); found[i] != c.want[i] {
				t.Errorf("%s: %+v, want %+v", name, found[i], c.want[i])
			}
		}
	}
	byHour, err := d.AnswersByHour(t.Context(), acme, []uuid.UUID{hook, other, foreign}, midday)
	assert.True(t, err == nil && len(byHour) == 2 && len(byHour[hook]) == 1 && byHour[hook][0].Succeeded == 3 &&
		byHour[hook][0].Failed == 1 && byHour[other][0].Succeeded == 1, "by hour: %+v, %v", byHour, err)

	// A deleted destination takes its answers along, but not out of the organization's.
	projecttest.Stream(d.Log, destination.Aggregate, hook, midday)(destination.Deleted{At: midday.Add(time.Hour)})
	d.Project()
	if found, err := d.Answers(t.Context(), acme, ofHook, time.Hour, midday, nextDay); err != nil || len(found) != 0 {
		t.Errorf("of a deleted one: %+v, %v", found, err)
	}
	if found, err := d.Answers(t.Context(), acme, ofAll, time.Hour, midday, nextDay); err != nil || len(found) != 2 ||
		found[1].Succeeded != 3 {
		t.Errorf("of all, one of them deleted: %+v, %v", found, err)
	}
}

func TestLatency(t *testing.T) {
	t.Parallel()
	step := func(step, attempts int) query.Answers {
		return query.Answers{Step: step, Succeeded: attempts - attempts/3, Failed: attempts / 3}
	}
	ms := func(n float64) time.Duration { return time.Duration(n * float64(time.Millisecond)) }
	for name, c := range map[string]struct {
		part     float64
		of       []query.Answers
		from, to time.Duration
	}{
		"of none":                      {0.5, nil, 0, 0},
		"of one below a millisecond":   {0.5, []query.Answers{step(0, 1)}, ms(0.5), ms(0.5)},
		"in the middle of a step":      {0.5, []query.Answers{step(3, 100)}, ms(2.4), ms(2.42)},
		"at its end":                   {1, []query.Answers{step(3, 100)}, ms(2.82), ms(2.83)},
		"of the slow ones":             {0.99, []query.Answers{step(3, 98), step(21, 2)}, ms(1024), ms(1448)},
		"of the others":                {0.98, []query.Answers{step(3, 98), step(21, 2)}, ms(2), ms(2.83)},
		"of several slots":             {0.5, []query.Answers{step(9, 1), step(3, 3), step(9, 1)}, ms(2), ms(2.83)},
		"past the last step in use":    {1, []query.Answers{step(500, 1)}, ms(1), 1 << 62},
		"before the first step in use": {1, []query.Answers{step(-1, 1)}, 0, ms(1)},
	} {
		got := query.Latency(c.part, c.of)
		assert.True(t, got >= c.from && got <= c.to, "%s: %s, want %s to %s", name, got, c.from, c.to)
	}
}

func TestBacklog(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(hook, acme, "crm", midday)
	expect := func(what string, count int, oldest time.Time) {
		t.Helper()
		found, err := d.Backlog(t.Context(), acme, midday)
		assert.True(t, err == nil && found.Count == count && found.Oldest.Equal(oldest),
			"%s: %+v, %v, want %d since %s", what, found, err, count, oldest)
	}
	expect("no backlog", 0, time.Time{})
	first := d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday.Add(time.Minute), toHook(0, time.Time{}))
	// a worker holds it
	d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday.Add(time.Hour), toHook(7, midday.Add(2*time.Hour)))
	d.Project()
	expect("two wait", 2, midday.Add(time.Minute))
	d.attempts(first, delivery.Attempted{Status: delivery.StatusSucceeded, At: midday.Add(time.Hour)})
	d.Project()
	expect("the first succeeded", 1, midday.Add(time.Hour))
	found, err := d.Backlog(t.Context(), uuid.New(), midday)
	assert.True(t, err == nil && found.Count == 0, "of another organization: %+v, %v", found, err)

	// A large backlog has its oldest delivery by the day.
	d = newDeliverySide(t)
	d.busyDay(t, 3000, 20)
	expect("large backlog", 3000, midday.Truncate(24*time.Hour))
}

func TestOutcomesOfDays(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(hook, acme, "crm", midday.AddDate(0, 0, -9))
	for _, days := range []int{0, 0, 3, 6, 8} {
		d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday.AddDate(0, 0, -days), toHook(0, time.Time{}))
	}
	d.Project()
	since := []time.Time{midday, midday.AddDate(0, 0, -6), midday.AddDate(0, 0, -29)}
	for name, ask := range map[string]func() ([]query.Outcomes, error){
		"of one": func() ([]query.Outcomes, error) { return d.Outcomes(t.Context(), acme, since...) },
		"of all": func() ([]query.Outcomes, error) { return d.AllOutcomes(t.Context(), since...) },
	} {
		found, err := ask()
		assert.True(t, err == nil && len(found) == 3 && found[0].Total == 2 && found[1].Total == 4 && found[2].Pending() == 5,
			"%s: %+v, %v", name, found, err)
	}
	if found, err := d.Outcomes(t.Context(), uuid.New(), since...); err != nil || found[2].Total != 0 {
		t.Errorf("of another organization: %+v, %v", found, err)
	}
}

// Times of destinations are in UTC, as a retirement records them.
func TestHealthOf(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(hook, acme, "crm", midday)
	d.destination(other, acme, "erp", midday)
	d.attempted(hook, acme, midday, 0, 500)
	d.Project()
	all, err := d.HealthOf(t.Context(), []uuid.UUID{hook, uuid.New()})
	want := retirement.Health{ConsecutiveFailures: 1, StreakStartedAt: midday, LastFailureAt: midday}
	assert.True(t, err == nil && len(all) == 1 && all[hook] == want, "%+v, %v, want %+v", all, err, want)
}

func TestInstallationTotals(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	totals := func() (pending, failed, autoDisabled int, overdue bool) {
		t.Helper()
		d.Project()
		found := must.Get(d.InstallationTotals(t.Context(), midday))(t)
		return found.Pending(), found.Failed, found.AutoDisabled, found.Overdue > 24*time.Hour
	}
	expect := func(when string, pending, failed, autoDisabled int, overdue bool) {
		t.Helper()
		if p, f, a, o := totals(); p != pending || f != failed || a != autoDisabled || o != overdue {
			t.Errorf("%s: %d pending, %d failed, %d auto-disabled, overdue %t", when, p, f, a, o)
		}
	}
	expect("empty", 0, 0, 0, false)
	d.destination(hook, acme, "crm", midday)
	d.destination(other, acme, "erp", midday)
	first := d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday, toHook(0, time.Time{}))
	d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday, toHook(0, time.Time{}))
	expect("two are due", 2, 0, 0, true)
	d.attempts(first, delivery.Attempted{
		Status:  delivery.StatusFailed,
		At:      midday,
		Outcome: delivery.Outcome{FailureReason: "http_status", ResponseStatus: 500},
	})
	expect("one has failed", 1, 1, 0, true)
	projecttest.Stream(d.Log, organization.Aggregate, acme, midday)(
		organization.Registered{Name: "Acme", At: midday}, organization.Suspended{At: midday})
	expect("the organization is suspended", 1, 1, 0, false)
	projecttest.Stream(d.Log, destination.Aggregate, hook, midday)(
		destination.AutoDisabled{Reason: "100 failures", At: midday})
	expect("the destination is auto-disabled", 1, 1, 1, false)
}

// The list has all destinations that are counted, also before the audit trail has them, and never another
// organization's.
func TestRecipients_auditTrailBehind(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t, audit.ReadModel)
	d.destination(hook, acme, "crm", midday)
	want := []query.Recipient{{
		ID:        hook,
		Name:      "CRM",
		Status:    "enabled",
		Then:      "enabled",
		CreatedAt: midday,
	}}
	check := func(when string) {
		t.Helper()
		at := midday.Add(time.Hour)
		ids := must.Get(d.RecipientIDs(t.Context(), acme, at))(t)
		got := must.Get(d.Recipients(t.Context(), acme, ids, at))(t)
		if diff := cmp.Diff(want, got, utc); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		others, err := d.Recipients(t.Context(), uuid.New(), ids, at)
		assert.True(t, err == nil && len(others) == 0, "%s another organization sees %v, %v", when, others, err)
	}
	d.ProjectOn(destinations.ReadModel, 10)
	check("before the audit trail")
	d.ProjectOn(audit.ReadModel, 10)
	check("after it")
}
