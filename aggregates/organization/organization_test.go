package organization_test

import (
	"errors"
	"testing"
	"time"

	"carillon/aggregates/organization"
	"carillon/eventstore/aggregatetest"
)

var (
	noon       = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	later      = noon.Add(time.Hour)
	registered = organization.Registered{Name: "Town hall", At: noon}
	issued     = organization.KeyIssued{KeyID: "abcdEFGH", Name: "web site", Hash: []byte("digest"), ExpiresAt: &later, At: noon}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[organization.Event](t, organization.Events,
		registered, issued, organization.KeyRevoked{KeyID: "abcdEFGH", At: noon},
		organization.LimitsSet{Limits: organization.Limits{organization.LimitFeeds: 5, organization.LimitRequestsPerSecond: 50}, At: noon},
		organization.Suspended{Reason: "unpaid", At: noon}, organization.Resumed{At: noon}, organization.Deleted{At: noon})
}

func TestRegister(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, organization.Aggregate).When(organization.Register{Name: "Town hall", At: noon}).Then(registered)
}

func TestIssueAndRevokeKey(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, organization.Aggregate).Of(registered).
		When(organization.IssueKey{KeyID: "abcdEFGH", Name: "web site", Hash: []byte("digest"), ExpiresAt: &later, At: noon}).
		Then(issued).
		When(organization.RevokeKey{KeyID: "abcdEFGH", At: noon}).
		Then(organization.KeyRevoked{KeyID: "abcdEFGH", At: noon})
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		given []organization.Event
		when  organization.Command
		want  error
	}{
		"a key of nobody":           {nil, organization.IssueKey{KeyID: "abcdEFGH", At: noon}, organization.ErrUnknown},
		"a key that has expired":    {[]organization.Event{registered}, organization.IssueKey{KeyID: "k", ExpiresAt: &noon, At: noon}, organization.ErrExpired},
		"revoking for nobody":       {nil, organization.RevokeKey{KeyID: "abcdEFGH"}, organization.ErrUnknown},
		"revoking what is no key":   {[]organization.Event{registered}, organization.RevokeKey{KeyID: "other"}, organization.ErrUnknownKey},
		"revoking another's key id": {[]organization.Event{registered, issued}, organization.RevokeKey{KeyID: "ABCDefgh"}, organization.ErrUnknownKey},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			aggregatetest.Stream(t, organization.Aggregate).Of(tt.given...).When(tt.when).Refused(tt.want)
		})
	}
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
		When(organization.IssueKey{KeyID: "abcdEFGH", At: noon}, unknown, "KeyIssued", "", "", "", "", unknown).
		When(organization.RevokeKey{KeyID: "abcdEFGH"}, unknown, unknownKey, "KeyRevoked", "", "KeyRevoked", "KeyRevoked", unknown).
		When(organization.SetLimits{Limits: limits}, unknown, "LimitsSet", "LimitsSet", "LimitsSet", "LimitsSet", "LimitsSet", unknown).
		When(organization.Suspend{}, unknown, "Suspended", "Suspended", "Suspended", "", "Suspended", unknown).
		When(organization.Resume{}, unknown, "", "", "", "Resumed", "", unknown).
		When(organization.Delete{}, unknown, "Deleted", "Deleted", "Deleted", "Deleted", "Deleted", "")
}

func TestHostileNumberOfKeys(t *testing.T) {
	t.Parallel()
	limited := []organization.Event{registered, organization.LimitsSet{Limits: organization.Limits{organization.LimitKeys: 1}, At: noon}, issued}
	another := organization.IssueKey{KeyID: "another0", At: noon}
	want := &organization.LimitError{Limit: organization.LimitKeys, Most: 1}
	_, err := organization.Aggregate.Decide(folded(limited...), another)
	if refused, ok := errors.AsType[*organization.LimitError](err); !ok || *refused != *want {
		t.Errorf("beyond the limit: %v", err)
	}
	another.At = later // the first one has expired
	aggregatetest.Stream(t, organization.Aggregate).Of(limited...).When(another).Then(organization.KeyIssued(another))
	aggregatetest.Stream(t, organization.Aggregate).Of(append(limited, organization.KeyRevoked{KeyID: "abcdEFGH", At: noon})...).
		When(another).Then(organization.KeyIssued(another))
	for name, limits := range map[string]organization.Limits{
		"unknown": {"wishes": 3}, "negative": {organization.LimitFeeds: -1}, "too many": {organization.LimitFeeds: organization.MaxLimit + 1},
	} {
		if _, err := organization.Aggregate.Decide(folded(registered), organization.SetLimits{Limits: limits}); !errors.Is(err, organization.ErrBadLimit) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func folded(events ...organization.Event) (s organization.State) {
	for _, e := range events {
		s = organization.Aggregate.Evolve(s, e)
	}
	return s
}
