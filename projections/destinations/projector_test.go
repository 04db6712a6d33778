package destinations_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/projections/destinations"
	"carillon/projections/projecttest"
)

var (
	org   = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	alpha = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	first = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	next  = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	noon  = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

var created = destination.Created{
	Organization: org, At: noon,
	Settings: destination.Settings{
		ExternalID: "crm",
		Name:       "CRM",
		URL:        "https://example.org/hook/…",
		Address:    destination.Sealed{Data: []byte("address")},
		Headers:    destination.Sealed{Data: []byte("sealed")},
		Plain: destination.Plain{
			DebounceWindowSeconds: 5,
			MaxRequestsPerSecond:  0.5,
			Traceparent:           true,
		},
	},
}

func TestRows(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, destinations.ReadModel)
	happens := projecttest.Stream(log, destination.Aggregate, alpha, noon)
	row := func(status, reason, updated string, revision int) string {
		return fmt.Sprintf(`{"id": "%s", "name": "CRM", "status": "%s", "address": "\\x61646472657373", `+
			`"headers": "\\x7365616c6564", "revision": %d, "settings": `+
			`{"traceparent": true, "maxRequestsPerSecond": 0.5, "debounceWindowSeconds": 5}, `+
			`"shown_url": "https://example.org/hook/…", `+
			`"created_at": "2026-11-21T12:00:00+00:00", "updated_at": "2026-11-21T12:0%s:00+00:00", "external_id": "crm", `+
			`"organization": "%s", "status_reason": %s}`,
			alpha, status, revision, updated, org, reason)
	}
	minute := func(n int) time.Time { return noon.Add(time.Duration(n) * time.Minute) }

	happens(created, destination.SecretMinted{SecretID: first, Sealed: []byte("s1"), At: noon})
	log.Project()
	log.Holds("destinations.destinations", row("enabled", "null", "0", 1))
	happens(destination.AutoDisabled{Reason: "100 consecutive failures", At: minute(1)})
	log.Project()
	log.Holds("destinations.destinations", row("auto_disabled", `"100 consecutive failures"`, "1", 2))
	happens(destination.Disabled{At: minute(2)})
	log.Project()
	log.Holds("destinations.destinations", row("disabled", "null", "2", 3))
	happens(destination.AutoDisabled{Reason: "gone", At: minute(2)}, destination.Enabled{At: minute(3)})
	log.Project()
	log.Holds("destinations.destinations", row("enabled", "null", "3", 5))

	happens(destination.SecretRotated{
		SecretID:  next,
		Sealed:    []byte("s2"),
		Expiring:  []uuid.UUID{first},
		ExpiresAt: noon.Add(24 * time.Hour),
		At:        minute(4),
	})
	log.Project()
	secret := `{"id": "%s", "sealed": "\\x733%d", "revision": %d, "created_at": "2026-11-21T12:0%d:00+00:00", ` +
		`"expires_at": %s, "destination": "` + alpha.String() + `"}`
	log.Holds("destinations.secrets",
		fmt.Sprintf(secret, first, 1, 1, 0, `"2026-11-22T12:00:00+00:00"`),
		fmt.Sprintf(secret, next, 2, 6, 4, "null"))
	happens(destination.SecretExpired{SecretID: first, At: minute(5)})
	log.Project()
	log.Holds("destinations.secrets",
		fmt.Sprintf(secret, first, 1, 1, 0, `"2026-11-21T12:05:00+00:00"`),
		fmt.Sprintf(secret, next, 2, 6, 4, "null"))
	log.SameInBatches(t, destinations.ReadModel, []int{500}, "destinations.destinations", "destinations.secrets")
	log.SameInBatches(t, destinations.ReadModel, []int{4, 3}, "destinations.destinations", "destinations.secrets")

	happens(destination.Deleted{At: minute(6)})
	log.Project()
	log.Holds("destinations.destinations")
	log.Holds("destinations.secrets")
}

func TestRevisedReplacesAndClears(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, destinations.ReadModel)
	projecttest.Stream(log, destination.Aggregate, alpha, noon)(created,
		destination.Revised{
			Settings: destination.Settings{Name: "Billing", URL: "https://example.org/new"},
			At:       noon.Add(time.Minute),
		})
	log.Project()
	log.Holds("destinations.destinations",
		fmt.Sprintf(`{"id": "%s", "name": "Billing", "status": "enabled", "address": null, `+
			`"headers": null, "revision": 1, "settings": {"debounceWindowSeconds": 0}, `+
			`"shown_url": "https://example.org/new", `+
			`"created_at": "2026-11-21T12:00:00+00:00", "updated_at": "2026-11-21T12:01:00+00:00", "external_id": null, `+
			`"organization": "%s", "status_reason": null}`,
			alpha, org))
}
