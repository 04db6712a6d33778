package disclosure_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/disclosure"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	crm   = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	first = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	next  = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func shown(to string, at time.Time, what ...disclosure.Part) disclosure.Shown {
	return disclosure.Shown{
		Destination: crm,
		To:          to,
		What:        what,
		At:          at,
	}
}

func show(to string, at time.Time, what ...disclosure.Part) disclosure.Show {
	return disclosure.Show(shown(to, at, what...))
}

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[disclosure.Event](t, disclosure.Events,
		shown("key:ab12CD34", noon, disclosure.Secrets, disclosure.Address, disclosure.Headers))
	named := shown("console:ann", noon, disclosure.Secrets)
	named.Secrets = []uuid.UUID{first}
	_, data, err := disclosure.Events.Encode(named)
	must.OK(t, err)
	aggregatetest.GoldenFile(t, "disclosure.shown.v1.secrets.json", data)
}

// A disclosure covers a secret, and not the one that a rotation adds.
func TestShow_rotated(t *testing.T) {
	t.Parallel()
	of := func(minutes int, secrets ...uuid.UUID) disclosure.Show {
		show := show("console:ann", noon.Add(time.Duration(minutes)*time.Minute), disclosure.Secrets)
		show.Secrets = secrets
		return show
	}
	aggregatetest.Stream(t, disclosure.Aggregate).
		Of(shown("console:ann", noon, disclosure.Secrets)). // names no secret
		When(of(1, first)).Then(disclosure.Shown(of(1, first))).
		When(of(2, first)).Then().
		When(of(3, next, first)).Then(disclosure.Shown(of(3, next))).
		When(of(4, next, first)).Then().
		When(of(61, next, first)).Then(disclosure.Shown(of(61, first)))
}

// Any number of reads leads to at most 24 events a day of secrets, and one of each other part.
func TestShow_repeated(t *testing.T) {
	t.Parallel()
	const me, other = "key:ab12CD34", "console"
	later := noon.Add(time.Hour)
	aggregatetest.Stream(t, disclosure.Aggregate).
		When(show(me, noon, disclosure.Secrets, disclosure.Address)).
		Then(shown(me, noon, disclosure.Secrets, disclosure.Address)).
		When(show(me, later.Add(-1), disclosure.Secrets, disclosure.Address)).Then().
		When(show(other, noon, disclosure.Secrets)).Then(shown(other, noon, disclosure.Secrets)).
		When(show(me, noon, disclosure.Headers, disclosure.Secrets)).Then(shown(me, noon, disclosure.Headers)).
		When(show(me, later, disclosure.Secrets, disclosure.Address)).Then(shown(me, later, disclosure.Secrets)).
		// by a slow clock
		When(show(me, noon.Add(-time.Minute), disclosure.Secrets)).Then(shown(me, noon.Add(-time.Minute), disclosure.Secrets))
}

// All processes must derive the same stream on the same day, in all versions.
func TestStreamIDsNeverChange(t *testing.T) {
	t.Parallel()
	id := disclosure.StreamID(crm, noon)
	assert.Equal(t, id.String(), "707fef1f-49d1-5a06-8134-bc74a07fc7f8", "the stream of a day … now")
	midnight := noon.Add(12 * time.Hour)
	assert.True(t, disclosure.StreamID(crm, midnight.Add(-1).In(time.FixedZone("ahead", 3600*9))) == id &&
		disclosure.StreamID(crm, midnight) != id && disclosure.StreamID(uuid.New(), noon) != id,
		"a stream has another day or destination than its own")
}
