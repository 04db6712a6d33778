package query_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/subscription"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/health"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
	"carillon/projections/subscriptions"
	"carillon/query"
)

var (
	acme   = uuid.MustParse("11111111-1111-4111-8111-111111111111") // organizations
	rival  = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	hook   = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001") // destinations
	other  = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	midday = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

// deliverySide has the read models of the delivery side.
type deliverySide struct {
	*projecttest.Log
	*query.Queries
}

func newDeliverySide(t testing.TB, others ...projections.ReadModel) deliverySide {
	t.Helper()
	models := []projections.ReadModel{
		destinations.ReadModel,
		organizations.ReadModel,
		health.ReadModel,
		subscriptions.ReadModel,
		publications.ReadModel,
		deliveries.ReadModel,
	}
	log := projecttest.New(t, append(models, others...)...)
	return deliverySide{log, &query.Queries{Pool: log.Database}}
}

// destination records a destination with its first secret.
func (d deliverySide) destination(id, organization uuid.UUID, externalID string, at time.Time) {
	projecttest.Stream(d.Log, destination.Aggregate, id, at)(
		destination.Created{
			Organization: organization,
			Settings:     destination.Settings{ExternalID: externalID, Name: "CRM", URL: "https://example.org/hook"},
			At:           at,
		},
		destination.SecretMinted{SecretID: id, Sealed: []byte("first"), At: at})
}

// utc makes times comparable: Postgres returns them in the local zone.
var utc = cmp.Transformer("UTC", func(at time.Time) string { return at.UTC().Format(time.RFC3339Nano) })

func TestDestinationLimits(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(other, acme, "", midday)
	projecttest.Stream(d.Log, destination.Aggregate, hook, midday)(destination.Created{
		Organization: acme,
		Settings: destination.Settings{
			Name:  "CRM",
			URL:   "https://example.org/hook",
			Plain: destination.Plain{MaxRequestsPerSecond: 0.5},
		},
		At: midday,
	})
	d.Project()
	got, err := d.DestinationLimits(t.Context())
	if diff := cmp.Diff(map[uuid.UUID]float64{hook: 0.5}, got); diff != "" || err != nil {
		t.Errorf("limits (-want +got, %v):\n%s", err, diff)
	}
}

func TestDestination(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(hook, acme, "crm", midday)
	second, third := uuid.New(), uuid.New()
	overlap := midday.Add(24 * time.Hour)
	projecttest.Stream(d.Log, destination.Aggregate, hook, midday)(
		destination.SecretRotated{
			SecretID:  second,
			Sealed:    []byte("second"),
			Expiring:  []uuid.UUID{hook},
			ExpiresAt: overlap,
			At:        midday,
		},
		destination.SecretRotated{
			SecretID:  third,
			Sealed:    []byte("third"),
			Expiring:  []uuid.UUID{second},
			ExpiresAt: overlap,
			At:        midday,
		},
		destination.SecretExpired{SecretID: second, At: midday.Add(time.Minute)},
		destination.AutoDisabled{Reason: "2 consecutive failures", At: midday.Add(time.Hour)})
	for minutes, outcome := range []delivery.Outcome{
		{ResponseStatus: 200}, {
			FailureReason: "timeout",
			ErrorMessage:  "no answer",
		}, {
			FailureReason: "dns",
			ErrorMessage:  "no such host",
		},
	} {
		d.attempts(uuid.New(), delivery.Attempted{
			Outcome: outcome,
			At:      midday.Add(time.Duration(minutes) * time.Minute),
		})
	}
	d.Project()

	want := query.Destination{
		ID:           hook,
		Organization: acme,
		Settings:     destination.Settings{ExternalID: "crm", Name: "CRM", URL: "https://example.org/hook"},
		Status:       "auto_disabled",
		StatusReason: new("2 consecutive failures"),
		CreatedAt:    midday,
		UpdatedAt:    midday.Add(time.Hour),
		Revision:     5,
		Health: query.Health{
			ConsecutiveFailures: 2,
			StreakStartedAt:     new(midday.Add(time.Minute)),
			LastSuccessAt:       new(midday),
			LastFailureAt:       new(midday.Add(2 * time.Minute)),
			LastErrorMessage:    new("no such host"),
		},
		Secrets: []query.Secret{ // the second is expired
			{ID: third, Sealed: []byte("third"), CreatedAt: midday},
			{
				ID:        hook,
				Sealed:    []byte("first"),
				CreatedAt: midday,
				ExpiresAt: &overlap,
			},
		},
	}
	for _, ref := range []string{hook.String(), "crm"} {
		got := must.Get(d.Destination(t.Context(), acme, ref, midday.Add(time.Minute)))(t)
		if diff := cmp.Diff(want, got, utc); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", ref, diff)
		}
	}
	got, err := d.Destination(t.Context(), acme, hook.String(), overlap)
	assert.True(t, err == nil && len(got.Secrets) == 1 && got.Secrets[0].ID == third,
		"after the overlap: secrets are %v (%v), want the newest alone", got.Secrets, err)
	for _, ref := range []string{hook.String(), "crm"} {
		assert.Is(t, assert.Err(d.Destination(t.Context(), rival, ref, midday)), query.ErrNotFound,
			"another organization by %s: error", ref)
	}
	for _, ref := range []string{other.String(), "billing", "", "urn:uuid:" + hook.String()} {
		assert.Is(t, assert.Err(d.Destination(t.Context(), acme, ref, midday)), query.ErrNotFound, "by %q: error", ref)
	}
}

func TestDestinations(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	for n := range 5 {
		d.destination(uuid.New(), acme, fmt.Sprintf("n%d", n), midday.Add(time.Duration(n)*time.Minute))
	}
	d.destination(other, rival, "n0", midday)
	d.Project()
	list := func(organization uuid.UUID, limit, offset int) string {
		t.Helper()
		page, total, err := d.Destinations(t.Context(), organization, midday, limit, offset)
		must.OK(t, err)
		text := fmt.Sprintf("%d:", total)
		for _, found := range page {
			text += fmt.Sprintf(" %s/%d", found.ExternalID, len(found.Secrets))
		}
		return text
	}
	for want, got := range map[string]string{
		"5: n0/1 n1/1 n2/1 n3/1 n4/1": list(acme, 50, 0),
		"5: n2/1 n3/1":                list(acme, 2, 2),
		"5:":                          list(acme, 50, 5),
		"1: n0/1":                     list(rival, 50, 0),
		"0:":                          list(uuid.New(), 50, 0),
	} {
		assert.Equal(t, got, want, "list")
	}
}

func TestSubscriptions(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	d.destination(hook, acme, "crm", midday)
	d.destination(other, rival, "crm", midday)
	feed := uuid.New()
	ids := []uuid.UUID{uuid.New(), uuid.New(), uuid.New()}
	for n, id := range ids {
		projecttest.Stream(d.Log, subscription.Aggregate, id, midday)(subscription.Created{
			Organization: acme,
			Destination:  hook,
			At:           midday.Add(-time.Duration(n) * time.Minute), // the last is the oldest
			Settings: subscription.Settings{
				ExternalID: fmt.Sprintf("n%d", n),
				EventTypes: []string{"news.*", "event.item.added"},
				ScopeKind:  "feeds",
				Feeds:      []subscription.Pin{{FeedType: "news", FeedID: feed}},
			},
		})
	}
	d.Project()
	want := query.Subscription{
		ID:           ids[0],
		Organization: acme,
		Destination:  hook,
		Settings: subscription.Settings{
			ExternalID: "n0",
			EventTypes: []string{"news.*", "event.item.added"},
			ScopeKind:  "feeds",
			Feeds:      []subscription.Pin{{FeedType: "news", FeedID: feed}},
		},
		Active:    true,
		CreatedAt: midday,
		UpdatedAt: midday,
	}
	for _, ref := range []string{ids[0].String(), "n0"} {
		got := must.Get(d.Subscription(t.Context(), acme, hook, ref))(t)
		if diff := cmp.Diff(want, got, utc); diff != "" {
			t.Errorf("by %s (-want +got):\n%s", ref, diff)
		}
		assert.Is(t, assert.Err(d.Subscription(t.Context(), acme, other, ref)), query.ErrNotFound,
			"of another destination by %s: error", ref)
		assert.Is(t, assert.Err(d.Subscription(t.Context(), rival, hook, ref)), query.ErrNotFound,
			"of another organization by %s: error", ref)
	}
	page, total, err := d.Subscriptions(t.Context(), acme, hook, 2, 0)
	assert.True(t, err == nil && total == 3 && len(page) == 2 && page[0].ID == ids[2] && page[1].ID == ids[1],
		"page of 2 is %v of %d (%v), want the oldest two of 3", page, total, err)
	if page, total, err := d.Subscriptions(t.Context(), rival, hook, 2, 0); err != nil || total != 0 || len(page) != 0 {
		t.Errorf("another organization sees %v of %d (%v), want nothing", page, total, err)
	}
}

// TestFindDestinations searches by a part of a name in any case, a host and an id, and shows that the secret part of
// an address is not searched.
func TestFindDestinations(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	ids := map[string]uuid.UUID{}
	made := func(organization uuid.UUID, name, externalID, url string) {
		id := uuid.New()
		ids[name] = id
		at := midday.Add(time.Duration(len(ids)) * time.Minute)
		projecttest.Stream(d.Log, destination.Aggregate, id, at)(destination.Created{
			Organization: organization, Settings: destination.Settings{Name: name, ExternalID: externalID, URL: url}, At: at,
		})
	}
	made(acme, "Ticket shop", "shop", "https://Hooks.Example.org/T0K3N-shop?key=s3cr3t")
	made(acme, "KÖLN Tickets 100 %", "koeln_1", "https://user:passphrase@tickets.example.net:8443/x")
	made(acme, "Old newsletter", "", "https://news.example.org/…")
	made(acme, "Billing", "", "https://billing.example.com/")
	made(rival, "Ticket office", "office", "https://hooks.example.org/y")
	attempted := func(name string, status ...delivery.Status) {
		id := d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday, dispatch.Scheduled{
			Destination:  ids[name],
			Organization: acme,
		})
		happens := projecttest.Stream(d.Log, delivery.Aggregate, id, midday)
		for i, status := range status {
			failed := delivery.Outcome{FailureReason: "dns", ErrorMessage: "no such host"}
			if status == delivery.StatusSucceeded {
				failed = delivery.Outcome{ResponseStatus: 204}
			}
			attempted := delivery.Attempted{
				Organization: acme,
				Destination:  ids[name],
				Number:       i + 1,
				Trigger:      delivery.Automatic,
				Status:       status,
				Outcome:      failed,
				At:           midday,
			}
			if status == delivery.StatusPending {
				attempted.NextAttemptAt = midday.Add(time.Hour)
			}
			happens(attempted)
		}
	}
	attempted("Ticket shop", delivery.StatusPending)
	attempted("Ticket shop", delivery.StatusSucceeded) // ends the streak, and not the retries
	attempted("Old newsletter", delivery.StatusPending, delivery.StatusPending)
	attempted("Billing", delivery.StatusPending, delivery.StatusSucceeded)
	attempted("Billing", delivery.StatusFailed) // a streak, and nothing is retried
	projecttest.Stream(d.Log, destination.Aggregate, ids["KÖLN Tickets 100 %"], midday)(destination.AutoDisabled{
		Reason: "failures",
		At:     midday,
	})
	d.Project()
	for _, test := range []struct {
		text, status string
		want         []string
	}{
		{"", "", []string{"Ticket shop", "KÖLN Tickets 100 %", "Old newsletter", "Billing"}},
		{"ticket", "", []string{"Ticket shop", "KÖLN Tickets 100 %"}},
		{"köln", "", []string{"KÖLN Tickets 100 %"}},
		{"100 %", "", []string{"KÖLN Tickets 100 %"}},
		{"%", "", []string{"KÖLN Tickets 100 %"}},
		{"_", "", []string{"KÖLN Tickets 100 %"}}, // of its external id
		{"SHOP", "", []string{"Ticket shop"}},
		{"example.ORG", "", []string{"Ticket shop", "Old newsletter"}},
		{"https://hooks.example.org/T0K3N-shop", "", []string{"Ticket shop"}},
		{"tickets.example.net:8443", "", []string{"KÖLN Tickets 100 %"}},
		{"T0K3N", "", nil}, {"s3cr3t", "", nil}, {"passphrase", "", nil},
		{ids["Old newsletter"].String()[:13], "", []string{"Old newsletter"}},
		{ids["Ticket office"].String(), "", nil},
		{"", "auto_disabled", []string{"KÖLN Tickets 100 %"}},
		{"ticket", "enabled", []string{"Ticket shop"}},
		{"", "failing", []string{"Old newsletter", "Ticket shop", "KÖLN Tickets 100 %"}},
	} {
		for offset := 0; offset <= len(test.want); offset++ {
			found, total, err := d.FindDestinations(t.Context(), acme, query.DestinationFilter{
				Text:   test.text,
				Status: test.status,
				Limit:  1,
				Offset: offset,
			})
			must.OK(t, err)
			var names []string
			for _, one := range found {
				names = append(names, one.Name)
			}
			if diff := cmp.Diff(test.want[offset:min(offset+1, len(test.want))], names, cmpopts.EquateEmpty()); diff != "" ||
				total != len(test.want) {
				t.Errorf("%q, %s, from %d on: of %d (-want +got):\n%s", test.text, test.status, offset, total, diff)
			}
		}
	}
}
