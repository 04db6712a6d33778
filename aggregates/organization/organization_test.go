package organization_test

import (
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/aggregates/organization"
	"carillon/eventstore"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	later   = noon.Add(time.Hour)
	both    = []organization.Scope{organization.ScopeRead, organization.ScopeSecrets}
	rotated = organization.KeyRotated{
		KeyID:     "second00",
		Of:        "abcdEFGH",
		Name:      "web site",
		Hash:      []byte("another"),
		Scopes:    both,
		ExpiresAt: &later,
		EndsAt:    noon.Add(time.Minute),
		At:        noon,
	}
	registered = organization.Registered{Name: "Town hall", At: noon}
	issued     = organization.KeyIssued{
		KeyID:     "abcdEFGH",
		Name:      "web site",
		Hash:      []byte("digest"),
		Scopes:    both,
		ExpiresAt: &later,
		At:        noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[organization.Event](t, organization.Events,
		registered, issued, rotated, organization.KeyRevoked{KeyID: "abcdEFGH", At: noon},
		organization.LimitsSet{Limits: organization.Limits{organization.LimitFeeds: 5,
			organization.LimitRequestsPerSecond: 50}, At: noon},
		organization.Suspended{Reason: "unpaid", At: noon}, organization.Resumed{At: noon}, organization.Deleted{At: noon})
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	unknown, unknownKey := organization.ErrUnknown, organization.ErrUnknownKey
	limits := organization.Limits{organization.LimitKeys: 7}
	aggregatetest.Table(t, organization.Aggregate).
		State("none").
		State("registered", registered).
		State("key issued", registered, issued).
		State("key revoked", registered, issued, organization.KeyRevoked{KeyID: "abcdEFGH", At: noon}).
		State("suspended", registered, issued, organization.Suspended{At: noon}).
		State("resumed", registered, issued, organization.Suspended{At: noon}, organization.Resumed{At: noon}).
		State("deleted", registered, issued, organization.Deleted{At: noon}).
		When(organization.Register{Name: "Town hall"}, "Registered", "", "", "", "", "", unknown).
		When(organization.IssueKey{KeyID: "abcdEFGH", Scopes: both, At: noon}, unknown, "KeyIssued", "", "", "", "", unknown).
		When(organization.RotateKey{KeyID: "second00", Of: "abcdEFGH", At: noon}, unknown, unknownKey, "KeyRotated",
			unknownKey, "KeyRotated", "KeyRotated", unknown).
		When(organization.RevokeKey{KeyID: "abcdEFGH"}, unknown, unknownKey, "KeyRevoked", "", "KeyRevoked", "KeyRevoked",
			unknown).
		When(organization.SetLimits{Limits: limits}, unknown, "LimitsSet", "LimitsSet", "LimitsSet", "LimitsSet", "LimitsSet",
			unknown).
		When(organization.Suspend{}, unknown, "Suspended", "Suspended", "Suspended", "", "Suspended", unknown).
		When(organization.Resume{}, unknown, "", "", "", "Resumed", "", unknown).
		When(organization.Delete{}, unknown, "Deleted", "Deleted", "Deleted", "Deleted", "Deleted", "")
}

func TestMaxKeys(t *testing.T) {
	t.Parallel()
	limited := []organization.Event{registered,
		organization.LimitsSet{Limits: organization.Limits{organization.LimitKeys: 1}, At: noon}, issued}
	another := organization.IssueKey{KeyID: "another0", Scopes: both, At: noon}
	want := &organization.LimitError{Limit: organization.LimitKeys, Most: 1}
	_, err := organization.Aggregate.Decide(folded(limited...), another)
	refused, ok := errors.AsType[*organization.LimitError](err)
	assert.True(t, ok && *refused == *want, "beyond the limit: %v", err)
	another.At = later // the first one has expired
	aggregatetest.Stream(t, organization.Aggregate).Of(limited...).When(another).Then(organization.KeyIssued(another))
	aggregatetest.Stream(t, organization.Aggregate).
		Of(append(limited, organization.KeyRevoked{KeyID: "abcdEFGH", At: noon})...).
		When(another).Then(organization.KeyIssued(another))
	for name, limits := range map[string]organization.Limits{
		"unknown": {"wishes": 3}, "negative": {organization.LimitFeeds: -1},
		"too many": {organization.LimitFeeds: organization.MaxLimit + 1},
	} {
		_, err := organization.Aggregate.Decide(folded(registered), organization.SetLimits{Limits: limits})
		assert.True(t, errors.Is(err, organization.ErrBadLimit), "%s: %v", name, err)
	}
}

// Keys without scopes have all of them.
func TestOldKeysHaveAllScopes(t *testing.T) {
	t.Parallel()
	golden := must.Get(os.ReadFile("testdata/organization.key-issued.v1.json"))(t)
	read, err := organization.Events.Decode(&eventstore.Recorded{Type: "organization.key-issued.v1", Data: golden})
	want := issued
	want.Scopes = organization.AllScopes()
	if diff := cmp.Diff(organization.Event(want), read); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestRotateKey(t *testing.T) {
	t.Parallel()
	rotate := organization.RotateKey{
		KeyID:   "second00",
		Of:      "abcdEFGH",
		Hash:    []byte("another"),
		Overlap: time.Minute,
		At:      noon,
	}
	long := rotate
	long.KeyID, long.Overlap = "third000", time.Hour
	again := rotated
	// a second rotation does not extend the key: its successor ends with the first one
	again.KeyID, again.ExpiresAt = "third000", &again.EndsAt
	aggregatetest.Stream(t, organization.Aggregate).Of(registered, issued).When(rotate).Then(rotated).When(rotate).Then().
		When(long).Then(again)

	one := organization.LimitsSet{Limits: organization.Limits{organization.LimitKeys: 1}, At: noon}
	// at the limit
	aggregatetest.Stream(t, organization.Aggregate).Of(registered, one, issued).When(rotate).Then(rotated)
}

// A successor ends at the latest with its predecessor: by expiry or overlap.
func TestRotateKey_end(t *testing.T) {
	t.Parallel()
	full := organization.KeyIssued{KeyID: "full0000", Scopes: organization.AllScopes(), At: noon}
	overlap := organization.KeyRotated{
		KeyID:  "next0000",
		Of:     "full0000",
		Scopes: full.Scopes,
		EndsAt: noon.Add(time.Hour),
		At:     noon,
	}
	rotate := func(of string, at time.Time) organization.RotateKey {
		return organization.RotateKey{
			KeyID:   "new00000",
			Of:      of,
			Overlap: 24 * time.Hour,
			At:      at,
		}
	}
	for of, end := range map[string]*time.Time{"full0000": &overlap.EndsAt, "next0000": nil, "abcdEFGH": &later} {
		events, err := organization.Aggregate.Decide(folded(registered, issued, full, overlap), rotate(of, noon))
		made, ok := events[0].(organization.KeyRotated)
		if diff := cmp.Diff(end, made.ExpiresAt); err != nil || !ok || diff != "" {
			t.Errorf("of %s: %v (-want +got):\n%s", of, err, diff)
		}
	}
	for of, at := range map[string]time.Time{"abcdEFGH": later, "full0000": overlap.EndsAt, "nobody00": noon} {
		_, err := organization.Aggregate.Decide(folded(registered, issued, full, overlap), rotate(of, at))
		assert.Is(t, err, organization.ErrUnknownKey, "of %s at %v", of, at)
	}
}

func TestRotateKey_hostile(t *testing.T) {
	t.Parallel()
	full := organization.KeyIssued{KeyID: "full0000", Scopes: organization.AllScopes(), At: noon}
	for _, scopes := range [][]organization.Scope{nil, {"admin"}, {"read", "read"}} {
		_, err := organization.Aggregate.Decide(folded(registered), organization.IssueKey{KeyID: "k", Scopes: scopes,
			At: noon})
		assert.Is(t, err, organization.ErrBadScopes, "scopes %v", scopes)
	}
	limited := []organization.Event{registered,
		organization.LimitsSet{Limits: organization.Limits{organization.LimitKeys: 1}, At: noon}, full}
	state, of := folded(limited...), "full0000"
	for i := range 3 { // from key to key, each with an overlap
		next := organization.RotateKey{
			KeyID:   fmt.Sprintf("chain%03d", i),
			Of:      of,
			Overlap: time.Hour,
			At:      noon,
		}
		events, err := organization.Aggregate.Decide(state, next)
		_, full := errors.AsType[*organization.LimitError](err)
		must.True(t, full == (i > 0), "rotation %d: %v", i, err)
		for _, e := range events {
			state, of = organization.Aggregate.Evolve(state, e), next.KeyID
		}
	}
}

func folded(events ...organization.Event) (s organization.State) {
	for _, e := range events {
		s = organization.Aggregate.Evolve(s, e)
	}
	return s
}

// A long stream of keys is folded at a cost that grows with its length only, and earlier states stay as they are.
func TestKeys_longStream(t *testing.T) { //nolint:paralleltest // it counts allocations
	const rotations = 5000
	events := []organization.Event{organization.Registered{At: noon}, organization.KeyIssued{KeyID: "key0", At: noon}}
	for i := range rotations {
		id, of := fmt.Sprint("key", i+1), fmt.Sprint("key", i)
		events = append(events, organization.KeyRotated{KeyID: id, Of: of, EndsAt: noon})
	}
	perEvent := testing.AllocsPerRun(1, func() { folded(events...).Keys() }) / rotations
	assert.True(t, perEvent <= 10, "%v allocations an event", perEvent)
	before := folded(events[:2]...)
	one, other := organization.Aggregate.Evolve(before, events[2]), organization.Aggregate.Evolve(before,
		organization.KeyRevoked{KeyID: "key0"})
	if before.Keys()["key0"].Status != organization.KeyStatusIssued || len(one.Keys()) != 2 || len(other.Keys()) != 1 {
		t.Errorf("states share keys: %v, %v, %v", before.Keys(), one.Keys(), other.Keys())
	}
}
