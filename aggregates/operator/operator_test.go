package operator_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"carillon/aggregates/operator"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
	term  = noon.Add(1000 * time.Hour)
	issue = operator.Issue{
		Name:      "ann",
		TokenID:   "abcdEFGH",
		Hash:      []byte("digest"),
		ExpiresAt: &term,
		At:        noon,
	}
	issued = operator.TokenIssued{
		Name:      "ann",
		TokenID:   "abcdEFGH",
		Hash:      []byte("digest"),
		ExpiresAt: &term,
		At:        noon,
	}
	rotate = operator.Rotate{
		TokenID: "second00",
		Hash:    []byte("another"),
		Overlap: time.Hour,
		At:      noon,
	}
	rotated = operator.TokenRotated{
		Name:      "ann",
		TokenID:   "second00",
		Hash:      []byte("another"),
		ExpiresAt: &term,
		Ending:    []string{"abcdEFGH"},
		EndsAt:    later,
		At:        noon,
	}
	revoked = operator.Revoked{Name: "ann", At: noon}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[operator.Event](t, operator.Events, issued, rotated, revoked,
		operator.Acted{Action: "rebuild-projection", Subject: "items", At: noon})
}

func TestRotate_neverExtendsToken(t *testing.T) {
	t.Parallel()
	long := operator.Rotate{
		TokenID: "third000",
		Hash:    []byte("third"),
		Overlap: 5 * time.Hour,
		At:      noon,
	}
	aggregatetest.Stream(t, operator.Aggregate).Of(issued, rotated).When(long).Then(operator.TokenRotated{
		Name:      "ann",
		TokenID:   "third000",
		Hash:      []byte("third"),
		ExpiresAt: &term,
		Ending:    []string{"second00"},
		EndsAt:    noon.Add(5 * time.Hour),
		At:        noon,
	})
	lapsed := rotate
	lapsed.At = term
	aggregatetest.Stream(t, operator.Aggregate).Of(issued).When(lapsed).Refused(operator.ErrLapsed)
}

func TestMaxValidTokens(t *testing.T) {
	t.Parallel()
	state := operator.Aggregate.Evolve(operator.State{}, issued)
	for i := range operator.MaxValidTokens + 1 {
		next := operator.Rotate{
			TokenID: fmt.Sprintf("token%03d", i),
			Hash:    []byte{byte(i)},
			Overlap: time.Hour,
			At:      noon,
		}
		events, err := operator.Aggregate.Decide(state, next)
		must.Equal(t, i >= operator.MaxValidTokens-1, errors.Is(err, operator.ErrTooManyTokens), "rotation %d: %v", i, err)
		for _, e := range events {
			state = operator.Aggregate.Evolve(state, e)
		}
	}
	now := operator.Rotate{TokenID: "afterall", Hash: []byte("x"), At: noon}
	must.Get(operator.Aggregate.Decide(state, now))(t)
}

// Stream ids of operators must never change.
func TestStreamIDsNeverChange(t *testing.T) {
	t.Parallel()
	assert.Equal(t, operator.StreamID("ann").String(), "d5c4d48c-9272-5b63-9b1c-65019ce2f9c5",
		"the stream of an operator … now")
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	expired := operator.Issue{
		Name:      "ann",
		TokenID:   "late0000",
		ExpiresAt: &noon,
		At:        noon,
	}
	aggregatetest.Table(t, operator.Aggregate).
		State("none").
		State("admitted", issued).
		State("rotated", issued, rotated).
		State("revoked", issued, rotated, revoked).
		State("again", issued, revoked, issued).
		When(issue, "TokenIssued", "", "", "TokenIssued", "").
		When(operator.Issue{Name: "ann", TokenID: "another0", At: noon}, "TokenIssued", operator.ErrTaken, operator.ErrTaken,
			"TokenIssued", operator.ErrTaken).
		When(expired, operator.ErrExpired, operator.ErrTaken, operator.ErrTaken, operator.ErrExpired, operator.ErrTaken).
		When(rotate, operator.ErrUnknown, "TokenRotated", "", operator.ErrUnknown, "TokenRotated").
		When(operator.Revoke{At: noon}, operator.ErrUnknown, "Revoked", "Revoked", "", "Revoked").
		When(operator.Act{Action: "renew-keys", At: noon}, "Acted", "Acted", "Acted", "Acted", "Acted")
}
