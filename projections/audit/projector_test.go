package audit_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/projections/audit"
	"carillon/projections/projecttest"
)

var (
	org    = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	alpha  = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	first  = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	next   = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	noon   = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	secret = []byte("sealed secret")
)

// life is one of each event.
func life() []destination.Event {
	headers := destination.Sealed{
		Data:   secret,
		Digest: secret,
		Parts:  []destination.SealedPart{{Name: "X-Tenant", Digest: []byte{1, 2}}},
	}
	return []destination.Event{
		destination.Created{Organization: org, Settings: destination.Settings{
			ExternalID: "crm",
			Name:       "CRM",
			URL:        "https://example.org/hook/…aa",
			Address:    headers,
			Headers:    headers,
		}, At: noon},
		destination.SecretMinted{SecretID: first, Sealed: secret, At: noon},
		// of a version before
		destination.Revised{
			Settings: destination.Settings{
				Name: "Billing",
				URL:  "https://example.org/new/capability?in=it",
				Plain: destination.Plain{
					DebounceWindowSeconds: 5,
					MaxRequestsPerSecond:  0.5,
					Traceparent:           true,
				},
			},
			At: noon,
		},
		destination.SecretRotated{
			SecretID:  next,
			Sealed:    secret,
			Expiring:  []uuid.UUID{first},
			ExpiresAt: noon.Add(24 * time.Hour),
			At:        noon,
		},
		destination.SecretExpired{SecretID: first, At: noon},
		destination.Disabled{At: noon},
		destination.Enabled{At: noon},
		destination.AutoDisabled{Reason: "100 consecutive failures", At: noon},
		destination.Deleted{At: noon},
	}
}

func TestEveryChangeIsKeptWithoutSecrets(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, audit.ReadModel)
	projecttest.Stream(log, destination.Aggregate, alpha, noon.Add(time.Second))(life()...)
	log.Project()
	rows, err := log.Database.Query(t.Context(), "SELECT type || ' ' || detail FROM audit.entries WHERE destination = $1 "+
		"ORDER BY revision", alpha)
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`destination.created.v2 {"url": "https://example.org/hook/…aa", "name": "CRM", "status": "enabled", ` +
			`"headers": {"X-Tenant": "0102"}, "externalId": "crm", "hasHeaders": true}`,
		`destination.secret-minted.v1 {"secretId": "33333333-3333-4333-8333-333333333333"}`,
		`destination.revised.v2 {"url": "https://example.org/new/…", "name": "Billing", "traceparent": true, ` +
			`"maxRequestsPerSecond": 0.5, ` +
			`"debounceWindowSeconds": 5}`,
		`destination.secret-rotated.v1 {"expiring": ["33333333-3333-4333-8333-333333333333"], ` +
			`"secretId": "44444444-4444-4444-8444-444444444444", "expiresAt": "2026-11-22T12:00:00Z"}`,
		`destination.secret-expired.v1 {"expiring": ["33333333-3333-4333-8333-333333333333"], ` +
			`"expiresAt": "2026-11-21T12:00:00Z"}`,
		`destination.disabled.v1 {"status": "disabled"}`,
		`destination.enabled.v1 {"status": "enabled"}`,
		`destination.auto-disabled.v1 {"status": "auto_disabled", "statusReason": "100 consecutive failures"}`,
		`destination.deleted.v1 {"status": "deleted"}`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
	const old = 2 // names that nothing is stored under any more
	if len(want)+old != len(destination.Events.Names()) {
		t.Errorf("the life has %d events, a destination knows %d: describe the new one", len(want),
			len(destination.Events.Names())-old)
	}
	if dump := log.Dump("audit.entries"); strings.Contains(dump, string(secret)) || strings.Contains(dump, "capability") ||
		strings.Contains(dump, "c2VhbGVkIHNlY3JldA") {
		t.Errorf("a secret got into the audit trail:\n%s", dump)
	}
}

// An event whose metadata can't be read has no actor.
func TestUnreadableMetadataStops(t *testing.T) {
	t.Parallel()
	err := projecttest.New(t, audit.ReadModel).ProjectError(audit.ReadModel, eventstore.Recorded{
		Stream:   "destination-" + alpha.String(),
		Type:     "destination.enabled.v1",
		Data:     []byte(`{"at":"2026-11-21T12:00:00Z"}`),
		Metadata: []byte("torn"),
	})
	if !errors.Is(err, eventstore.ErrUndecodable) {
		t.Errorf("error = %v, want one that is ErrUndecodable", err)
	}
}
