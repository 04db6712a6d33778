package auditors_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/auditor"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/auditors"
	"carillon/projections/projecttest"
	"carillon/query"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestTokens(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, auditors.ReadModel)
	queries := &query.Queries{Pool: log.Database}
	expiry, town := noon.Add(time.Hour), uuid.New()
	record := func(id string, events ...auditor.Event) {
		projecttest.Stream(log, auditor.Aggregate, auditor.StreamID(id), noon)(events...)
	}
	record("forever0", auditor.TokenIssued{
		TokenID: "forever0",
		Name:    "A",
		Hash:    []byte("digest"),
		At:      noon,
	})
	record("anHour00", auditor.TokenIssued{
		TokenID:      "anHour00",
		Name:         "B",
		Organization: town,
		Hash:         []byte("another"),
		ExpiresAt:    &expiry,
		At:           noon,
	})
	log.Project()
	record("revoked0", auditor.TokenIssued{
		TokenID: "revoked0",
		Name:    "C",
		Hash:    []byte("third"),
		At:      noon.Add(time.Second),
	},
		auditor.TokenRevoked{TokenID: "revoked0", At: expiry})
	log.Project()

	for _, tt := range []struct {
		id   string
		at   time.Time
		want string
	}{
		{"forever0", noon.Add(1000 * time.Hour), "digest"}, {"anHour00", expiry.Add(-time.Second), "another"},
		{"anHour00", expiry, ""}, {"revoked0", noon, ""}, {"nobodys0", noon, ""}, {"", noon, ""},
	} {
		found, err := queries.Token(t.Context(), query.Auditors, tt.id, tt.at)
		hash := found.Hash
		if string(hash) != tt.want || found.Organization != uuid.Nil && tt.id != "anHour00" ||
			errors.Is(err, query.ErrNotFound) != (tt.want == "") || err != nil && tt.want != "" {
			t.Errorf("token %q at %s: %q, %v, want %q", tt.id, tt.at, hash, err, tt.want)
		}
	}
	list := must.Get(queries.AuditorTokens(t.Context()))(t)
	want := []query.AuditorCredential{
		{Credential: query.Credential{
			ID:        "anHour00",
			Name:      "B",
			CreatedAt: noon,
			ExpiresAt: &expiry,
		}, Organization: &town},
		{Credential: query.Credential{ID: "forever0", Name: "A", CreatedAt: noon}},
		{Credential: query.Credential{
			ID:        "revoked0",
			Name:      "C",
			CreatedAt: noon.Add(time.Second),
			RevokedAt: &expiry,
		}},
	}
	assert.Same(t, list, want)
}
