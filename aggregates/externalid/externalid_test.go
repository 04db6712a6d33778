package externalid_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/externalid"
	"carillon/eventstore/aggregatetest"
)

var (
	scope = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	alice = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	bob   = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

	claimed = externalid.Claimed{
		Scope:      scope,
		ExternalID: "crm",
		Owner:      alice,
		At:         noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[externalid.Event](t, externalid.Events, claimed, externalid.Released{Owner: alice, At: noon})
}

func claim(owner uuid.UUID, at time.Time) externalid.Claim {
	return externalid.Claim{
		Scope:      scope,
		ExternalID: "crm",
		Owner:      owner,
		At:         at,
	}
}

func TestClaim_firstWins(t *testing.T) {
	t.Parallel()
	renewed := claimed
	renewed.At = noon.Add(time.Second)
	aggregatetest.Stream(t, externalid.Aggregate).
		When(claim(alice, noon)).Then(claimed).
		When(claim(alice, renewed.At)).Then(renewed).
		When(claim(bob, noon)).Refused(externalid.ErrTaken)
}

func TestRelease_otherOwner(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, externalid.Aggregate).Of(claimed).
		When(externalid.Release{Owner: bob, At: noon}).Then().
		When(externalid.Release{Owner: alice, At: noon}).Then(externalid.Released{Owner: alice, At: noon})
}

func TestClaim_abandonedName(t *testing.T) {
	t.Parallel()
	bobs, renewed, later := claimed, claimed, noon.Add(time.Second)
	bobs.Owner, bobs.At, renewed.At = bob, later, later
	take := claim(bob, later)
	take.Abandoned = externalid.State{Owner: alice, Since: noon}
	aggregatetest.Stream(t, externalid.Aggregate).Of(claimed).When(take).Then(externalid.Released{Owner: alice, At: later},
		bobs)
	aggregatetest.Stream(t, externalid.Aggregate).Of(claimed, renewed).When(take).Refused(externalid.ErrTaken)
}
