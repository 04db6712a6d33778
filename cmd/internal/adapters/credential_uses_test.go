package adapters_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/auditor"
	operatorevents "carillon/aggregates/operator"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/auditors"
	"carillon/projections/operators"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
)

// Two nodes keep one table; the later use counts, and nothing is written twice in an hour.
func TestUsesOfCredentials(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	quiet := slog.New(slog.DiscardHandler)
	one, other := &adapters.CredentialUses{Pool: pool, Log: quiet}, &adapters.CredentialUses{Pool: pool, Log: quiet}
	flush := func(all ...*adapters.CredentialUses) {
		t.Helper()
		for _, u := range all {
			must.OK(t, u.Flush(t.Context()))
		}
	}
	one.Used("ck_aaaaaaaa", noon.Add(59*time.Minute))
	other.Used("ck_aaaaaaaa", noon.Add(-time.Minute)) // a clock that is behind
	other.Used("co_bbbbbbbb", noon.Add(time.Minute))
	flush(one, other)
	want := map[string]time.Time{"ck_aaaaaaaa": noon, "co_bbbbbbbb": noon}
	assert.Same(t, usesIn(t, pool), want)
	written := versionsOf(t, pool)
	for range 1000 {
		one.Used("ck_aaaaaaaa", noon.Add(30*time.Minute))
	}
	flush(one, other)
	assert.Same(t, versionsOf(t, pool), written)
	one.Used("ck_aaaaaaaa", noon.Add(time.Hour))
	flush(one)
	got := usesIn(t, pool)["ck_aaaaaaaa"]
	assert.True(t, got.Equal(noon.Add(time.Hour)), "an hour later it is %s", got)
}

// Uses that can't be written now are written later, and the last ones at the end of the process.
func TestUsesSurviveAnOutageAndTheEnd(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	uses := &adapters.CredentialUses{Pool: pool, Log: slog.New(slog.DiscardHandler)}
	uses.Used("ck_aaaaaaaa", noon)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	must.True(t, uses.Flush(gone) != nil, "it was written without Postgres")
	uses.Keep(gone) // the process ends
	assert.Same(t, usesIn(t, pool), map[string]time.Time{"ck_aaaaaaaa": noon})
}

// When dead credentials were used is forgotten 90 days later; when those were that may be used still, never.
func TestUsesOfDeadCredentialsAreCleared(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, organizations.ReadModel, operators.ReadModel, auditors.ReadModel)
	pool := log.Database
	past, recent := noon.Add(-100*24*time.Hour), noon.Add(-80*24*time.Hour)
	key := func(id string) organization.Event {
		return organization.KeyIssued{KeyID: id, Scopes: organization.AllScopes(), At: past}
	}
	projecttest.Stream(log, organization.Aggregate, uuid.New(), past)(organization.Registered{Name: "Town hall", At: past},
		key("alive000"), key("revoked0"), organization.KeyRevoked{KeyID: "revoked0", At: past},
		key("lately00"), organization.KeyRevoked{KeyID: "lately00", At: past},
		organization.KeyIssued{
			KeyID:     "expired0",
			Scopes:    organization.AllScopes(),
			ExpiresAt: &recent,
			At:        past,
		})
	projecttest.Stream(log, organization.Aggregate, uuid.New(), past)(organization.Registered{Name: "Library", At: past},
		key("gone0000"), organization.Deleted{At: past})
	projecttest.Stream(log, operatorevents.Aggregate, operatorevents.StreamID("ann"), past)(operatorevents.TokenIssued{
		Name:    "ann",
		TokenID: "anns0000",
		At:      past,
	})
	projecttest.Stream(log, operatorevents.Aggregate, operatorevents.StreamID("bob"), past)(
		operatorevents.TokenIssued{Name: "bob", TokenID: "bobs0000", At: past}, operatorevents.Revoked{Name: "bob", At: past})
	projecttest.Stream(log, auditor.Aggregate, auditor.StreamID("audits00"), past)(auditor.TokenIssued{
		TokenID: "audits00",
		Name:    "Revision office",
		At:      past,
	})
	projecttest.Stream(log, auditor.Aggregate, auditor.StreamID("former00"), past)(
		auditor.TokenIssued{TokenID: "former00", Name: "Another", At: past}, auditor.TokenRevoked{
			TokenID: "former00",
			At:      past,
		})
	log.Project()

	uses := &adapters.CredentialUses{Pool: pool, Log: slog.New(slog.DiscardHandler)}
	used := func(at time.Time, credentials ...string) {
		t.Helper()
		for _, credential := range credentials {
			uses.Used(credential, at)
		}
		must.OK(t, uses.Flush(t.Context()))
	}
	used(past, "ck_alive000", "ck_revoked0", "ck_expired0", "ck_gone0000", "co_anns0000", "co_bobs0000", "ca_audits00",
		"ca_former00")
	used(recent, "ck_lately00")
	must.OK(t, uses.Clear(t.Context(), noon))
	want := map[string]time.Time{"ck_alive000": past, "co_anns0000": past, "ca_audits00": past, "ck_lately00": recent}
	assert.Same(t, usesIn(t, pool), want)
}

func usesIn(t *testing.T, pool *pgxpool.Pool) map[string]time.Time {
	t.Helper()
	rows := must.Get(pool.Query(t.Context(), "SELECT credential, used_at FROM carillon.credential_uses"))(t)
	defer rows.Close()
	found := map[string]time.Time{}
	for rows.Next() {
		var credential string
		var at time.Time
		must.OK(t, rows.Scan(&credential, &at))
		found[credential] = at.UTC()
	}
	return found
}

// versionsOf are the transactions that wrote the rows.
func versionsOf(t *testing.T, pool *pgxpool.Pool) (versions string) {
	t.Helper()
	must.OK(t, pool.QueryRow(t.Context(), "SELECT string_agg(credential || ' ' || xmin::text, ',' ORDER BY credential) "+
		"FROM carillon.credential_uses").Scan(&versions))
	return versions
}
