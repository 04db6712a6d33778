package operators_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"carillon/aggregates/operator"
	"carillon/projections/operators"
	"carillon/projections/projecttest"
	"carillon/query"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func TestTokens(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, operators.ReadModel)
	queries := &query.Queries{Pool: log.Database}
	term, overlap := noon.Add(48*time.Hour), noon.Add(time.Hour)
	record := func(name string, events ...operator.Event) {
		projecttest.Stream(log, operator.Aggregate, operator.StreamID(name), noon)(events...)
	}
	record("ann", operator.TokenIssued{
		Name:      "ann",
		TokenID:   "annsOld0",
		Hash:      []byte("one"),
		ExpiresAt: &term,
		At:        noon,
	})
	record("bob", operator.TokenIssued{
		Name:    "bob",
		TokenID: "bobsOld0",
		Hash:    []byte("two"),
		At:      noon,
	})
	log.Project()
	record("ann", operator.TokenRotated{
		Name:      "ann",
		TokenID:   "annsNew0",
		Hash:      []byte("three"),
		ExpiresAt: &term,
		Ending:    []string{"annsOld0", "bobsOld0"},
		EndsAt:    overlap,
		At:        noon.Add(time.Second),
	}, operator.Acted{Action: "renew-keys", At: noon})
	log.Project()
	record("bob", operator.Revoked{Name: "bob", At: noon.Add(time.Minute)},
		operator.TokenIssued{
			Name:    "bob",
			TokenID: "bobsNew0",
			Hash:    []byte("four"),
			At:      noon.Add(2 * time.Minute),
		})
	log.Project()

	for _, tt := range []struct {
		id   string
		at   time.Time
		want query.Token
	}{
		{"annsOld0", overlap.Add(-time.Second), query.Token{Name: "ann", Hash: []byte("one")}},
		{"annsOld0", overlap, query.Token{}},
		{"annsNew0", overlap, query.Token{Name: "ann", Hash: []byte("three")}},
		{"annsNew0", term, query.Token{}},
		{"bobsOld0", noon, query.Token{}}, {"bobsNew0", noon, query.Token{Name: "bob", Hash: []byte("four")}},
		{"nobodys0", noon, query.Token{}},
	} {
		got, err := queries.Token(t.Context(), query.Operators, tt.id, tt.at)
		if cmp.Diff(tt.want, got) != "" || errors.Is(err, query.ErrNotFound) != (tt.want.Name == "") ||
			err != nil && tt.want.Name != "" {
			t.Errorf("token %q at %s: %+v, %v, want %+v", tt.id, tt.at, got, err, tt.want)
		}
	}
	revoked := noon.Add(time.Minute)
	want := []query.Credential{
		{
			ID:        "annsOld0",
			Name:      "ann",
			CreatedAt: noon,
			ExpiresAt: &overlap,
		},
		{
			ID:        "annsNew0",
			Name:      "ann",
			CreatedAt: noon.Add(time.Second),
			ExpiresAt: &term,
		},
		{
			ID:        "bobsOld0",
			Name:      "bob",
			CreatedAt: noon,
			RevokedAt: &revoked,
		},
		{ID: "bobsNew0", Name: "bob", CreatedAt: noon.Add(2 * time.Minute)},
	}
	list, err := queries.OperatorTokens(t.Context())
	if diff := cmp.Diff(want, list); err != nil || diff != "" {
		t.Errorf("%v; tokens (-want +got):\n%s", err, diff)
	}
}
