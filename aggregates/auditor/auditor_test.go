package auditor_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	later = noon.Add(time.Hour)
	issue = auditor.Issue{
		TokenID:   "abcdEFGH",
		Name:      "Court of audit",
		Hash:      []byte("digest"),
		ExpiresAt: &later,
		At:        noon,
	}
	issued = auditor.TokenIssued{
		TokenID:   "abcdEFGH",
		Name:      "Court of audit",
		Hash:      []byte("digest"),
		ExpiresAt: &later,
		At:        noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[auditor.Event](t, auditor.Events, issued, auditor.TokenRevoked{TokenID: "abcdEFGH", At: noon})
	bound := issued
	bound.Organization = uuid.MustParse("0c000000-0000-4000-8000-000000000001")
	_, data, err := auditor.Events.Encode(bound)
	must.OK(t, err)
	aggregatetest.GoldenFile(t, "auditor.token-issued.v1.bound.json", data)
}

func TestIssueAndRevoke(t *testing.T) {
	t.Parallel()
	aggregatetest.Stream(t, auditor.Aggregate).When(issue).Then(issued).
		When(auditor.Revoke{At: later}).Then(auditor.TokenRevoked{TokenID: "abcdEFGH", At: later})
}

// Stream ids of issued tokens must never change.
func TestStreamIDsNeverChange(t *testing.T) {
	t.Parallel()
	assert.Equal(t, auditor.StreamID("abcdEFGH").String(), "4bda93c7-f69c-5d14-a491-d6327e99d34b",
		"the stream of a token … now")
	assert.True(t, auditor.StreamID("abcdEFGH") != auditor.StreamID("ABCDefgh"), "two tokens share a stream")
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	expired := issue
	expired.ExpiresAt = &noon
	aggregatetest.Table(t, auditor.Aggregate).
		State("none").
		State("issued", issued).
		State("revoked", issued, auditor.TokenRevoked{TokenID: "abcdEFGH", At: noon}).
		When(issue, "TokenIssued", "", "").
		When(expired, auditor.ErrExpired, "", "").
		When(auditor.Issue{TokenID: "abcdEFGH", Hash: []byte("another")}, "TokenIssued", auditor.ErrTaken, auditor.ErrTaken).
		When(auditor.Revoke{At: noon}, auditor.ErrUnknown, "TokenRevoked", "")
}
