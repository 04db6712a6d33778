package organizations_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/query"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestKeys(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, organizations.ReadModel)
	queries := &query.Queries{Pool: log.Database}
	org, expiry := uuid.New(), noon.Add(time.Hour)
	record(log, org,
		organization.Registered{Name: "Town hall", At: noon},
		organization.KeyIssued{
			KeyID:  "forever0",
			Hash:   []byte("digest"),
			Scopes: organization.AllScopes(),
			At:     noon,
		},
		organization.KeyIssued{
			KeyID:     "anHour00",
			Hash:      []byte("another"),
			Scopes:    []organization.Scope{"read"},
			ExpiresAt: &expiry,
			At:        noon,
		},
		organization.KeyIssued{
			KeyID:  "revoked0",
			Hash:   []byte("third"),
			Scopes: organization.AllScopes(),
			At:     noon,
		},
		organization.KeyRevoked{KeyID: "revoked0", At: noon},
	)
	log.Project()

	key, err := find(t, queries, "forever0", noon.Add(1000*time.Hour))
	assert.True(t, err == nil && key.Organization == org && string(key.Hash) == "digest" && key.ExpiresAt.IsZero(),
		"key = %+v, %v", key, err)
	key, err = find(t, queries, "anHour00", expiry.Add(-time.Second))
	assert.True(t, err == nil && key.ExpiresAt.Equal(expiry) && slices.Equal(key.Scopes, []string{"read"}),
		"key = %+v, %v", key, err)
	for id, at := range map[string]time.Time{"anHour00": expiry, "revoked0": noon, "nobodys0": noon, "": noon} {
		assert.Is(t, assert.Err(find(t, queries, id, at)), query.ErrNotFound, "key %q at %s", id, at)
	}
	list, err := queries.Organizations(t.Context())
	assert.True(t, err == nil && len(list) == 1 && list[0].ID == org && list[0].Name == "Town hall",
		"organizations = %+v, %v", list, err)
}

// A key id that two organizations got by chance opens the first one's data only, and one can't revoke the other's.
func TestKeysOfTwoOrganizationsStayApart(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, organizations.ReadModel)
	queries := &query.Queries{Pool: log.Database}
	first, second := uuid.New(), uuid.New()
	for _, org := range []uuid.UUID{first, second} {
		record(log, org, organization.Registered{Name: "O", At: noon}, organization.KeyIssued{
			KeyID:  "sameSame",
			Hash:   org[:],
			Scopes: organization.AllScopes(),
			At:     noon,
		})
	}
	record(log, second, organization.KeyRevoked{KeyID: "sameSame", At: noon})
	log.Project()
	assert.Equal(t, must.Get(find(t, queries, "sameSame", noon))(t).Organization, first, "key")
}

// find is the one key with an id, or query.ErrNotFound.
func find(t *testing.T, queries *query.Queries, id string, at time.Time) (query.Key, error) {
	t.Helper()
	found, err := queries.FindKeys(t.Context(), []string{"another0", id}, at)
	if err == nil && len(found) != 1 {
		return query.Key{}, query.ErrNotFound
	}
	if err != nil {
		return query.Key{}, err
	}
	return found[0], nil
}

func record(log *projecttest.Log, org uuid.UUID, events ...organization.Event) {
	projecttest.Stream(log, organization.Aggregate, org, noon)(events...)
}
