package organization_test

import (
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
		registered, issued, organization.KeyRevoked{KeyID: "abcdEFGH", At: noon})
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
	aggregatetest.Table(t, organization.Aggregate).
		State("none").
		State("registered", registered).
		State("key issued", registered, issued).
		State("key revoked", registered, issued, organization.KeyRevoked{KeyID: "abcdEFGH", At: noon}).
		When(organization.Register{Name: "Town hall"}, "Registered", "", "", "").
		When(organization.IssueKey{KeyID: "abcdEFGH", At: noon}, unknown, "KeyIssued", "", "").
		When(organization.RevokeKey{KeyID: "abcdEFGH"}, unknown, unknownKey, "KeyRevoked", "")
}
