package destinations_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/projections"
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

// wants compares the rows of a table with JSON lines.
func wants(t *testing.T, log *projecttest.Log, table string, lines ...string) {
	t.Helper()
	got := strings.TrimSpace(strings.TrimPrefix(log.Dump(table), "# "+table))
	if diff := cmp.Diff(strings.Join(lines, "\n"), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", table, diff)
	}
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
	wants(t, log, "destinations.destinations", row("enabled", "null", "0", 1))
	happens(destination.AutoDisabled{Reason: "100 consecutive failures", At: minute(1)})
	log.Project()
	wants(t, log, "destinations.destinations", row("auto_disabled", `"100 consecutive failures"`, "1", 2))
	happens(destination.Disabled{At: minute(2)})
	log.Project()
	wants(t, log, "destinations.destinations", row("disabled", "null", "2", 3))
	happens(destination.AutoDisabled{Reason: "gone", At: minute(2)}, destination.Enabled{At: minute(3)})
	log.Project()
	wants(t, log, "destinations.destinations", row("enabled", "null", "3", 5))

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
	wants(t, log, "destinations.secrets",
		fmt.Sprintf(secret, first, 1, 1, 0, `"2026-11-22T12:00:00+00:00"`),
		fmt.Sprintf(secret, next, 2, 6, 4, "null"))
	happens(destination.SecretExpired{SecretID: first, At: minute(5)})
	log.Project()
	wants(t, log, "destinations.secrets",
		fmt.Sprintf(secret, first, 1, 1, 0, `"2026-11-21T12:05:00+00:00"`),
		fmt.Sprintf(secret, next, 2, 6, 4, "null"))

	happens(destination.Deleted{At: minute(6)})
	log.Project()
	wants(t, log, "destinations.destinations")
	wants(t, log, "destinations.secrets")
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
	wants(t, log, "destinations.destinations",
		fmt.Sprintf(`{"id": "%s", "name": "Billing", "status": "enabled", "address": null, `+
			`"headers": null, "revision": 1, "settings": {"debounceWindowSeconds": 0}, `+
			`"shown_url": "https://example.org/new", `+
			`"created_at": "2026-11-21T12:00:00+00:00", "updated_at": "2026-11-21T12:01:00+00:00", "external_id": null, `+
			`"organization": "%s", "status_reason": null}`,
			alpha, org))
}

// TestHoweverTheEventsAreBatched holds the fold against the same events one by one.
func TestHoweverTheEventsAreBatched(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, destinations.ReadModel)
	rapid.Check(t, func(r *rapid.T) {
		log.Clear()
		ids := []uuid.UUID{alpha, uuid.New()}
		states := map[uuid.UUID]destination.State{}
		at := noon
		for range rapid.IntRange(2, 25).Draw(r, "commands") {
			at = at.Add(time.Hour)
			id := rapid.SampledFrom(ids).Draw(r, "destination")
			command := randomCommand(r, states[id], at)
			events, err := destination.Aggregate.Decide(states[id], command)
			if err != nil {
				continue // refused
			}
			for _, event := range events {
				states[id] = destination.Aggregate.Evolve(states[id], event)
			}
			projecttest.Stream(log, destination.Aggregate, id, at)(events...)
		}
		log.ProjectInBatches(destinations.ReadModel, 1)
		want := log.Dump("destinations.destinations", "destinations.secrets")
		log.ProjectInBatches(destinations.ReadModel, rapid.SliceOfN(rapid.IntRange(1, 20), 1, 3).Draw(r, "batch sizes")...)
		if diff := cmp.Diff(want, log.Dump("destinations.destinations", "destinations.secrets")); diff != "" {
			r.Fatalf("in batches (+) it comes out otherwise than one by one (-):\n%s", diff)
		}
	})
}

func randomCommand(r *rapid.T, s destination.State, at time.Time) destination.Command {
	if s.Status == destination.StatusNone || s.Status == destination.StatusDeleted {
		return destination.Create{
			Organization: org,
			SecretID:     uuid.New(),
			Secret:       []byte("s"),
			At:           at,
			Settings: destination.Settings{
				Name:       "CRM",
				URL:        "https://example.org/hook",
				ExternalID: rapid.SampledFrom([]string{"", "crm"}).Draw(r, "external id"),
			},
		}
	}
	switch rapid.IntRange(0, 9).Draw(r, "command") {
	case 0, 1:
		return destination.Rotate{
			Organization: org,
			SecretID:     uuid.New(),
			Secret:       []byte("s"),
			At:           at,
		}
	case 2, 3:
		return destination.ExpireSecret{
			Organization: org,
			SecretID:     rapid.SampledFrom(s.Secrets).Draw(r, "secret").ID,
			At:           at,
		}
	case 4:
		return destination.AutoDisable{Reason: "100 consecutive failures", At: at}
	case 5:
		return destination.Delete{Organization: org, At: at}
	default:
		return destination.Revise{
			Organization: org,
			Sets:         destination.FieldName | destination.FieldExternalID,
			Settings: destination.Settings{
				Name:       rapid.StringMatching("[a-z]{1,3}").Draw(r, "name"),
				ExternalID: rapid.SampledFrom([]string{"", "crm"}).Draw(r, "external id"),
			},
			Enabled: new(rapid.Bool().Draw(r, "enabled")),
			At:      at,
		}
	}
}

func TestUnknownEventStops(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, destinations.ReadModel)
	err := log.ProjectError(destinations.ReadModel, eventstore.Recorded{
		Stream: "destination-" + alpha.String(),
		Type:   "destination.moved.v1",
		Data:   []byte("{}"),
	})
	if !errors.Is(err, eventstore.ErrUndecodable) {
		t.Errorf("error = %v, want one that is ErrUndecodable", err)
	}
}

// BenchmarkRebuild applies creations with a revision and a rotation each.
func BenchmarkRebuild(b *testing.B) {
	const size = 20_000
	log := projecttest.New(b, destinations.ReadModel)
	for range size / 4 {
		secret := uuid.New()
		projecttest.Stream(log, destination.Aggregate, uuid.New(), noon)(created, destination.SecretMinted{
			SecretID: secret,
			Sealed:   make([]byte, 60),
			At:       noon,
		},
			destination.Revised{Settings: destination.Settings{Name: "Billing", URL: "https://example.org/new"}, At: noon},
			destination.SecretRotated{
				SecretID:  uuid.New(),
				Sealed:    make([]byte, 60),
				Expiring:  []uuid.UUID{secret},
				ExpiresAt: noon,
				At:        noon,
			})
	}
	for b.Loop() {
		log.ProjectInBatches(destinations.ReadModel, projections.MaxBatch)
	}
	b.ReportMetric(size*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
