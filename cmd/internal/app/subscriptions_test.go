package app_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/command"
	"carillon/command/delivery"
	"carillon/projections/feeds"
)

type secret struct{ id, secret string }

func secretsOf(t testing.TB, data map[string]any) []secret {
	t.Helper()
	list, ok := data["secrets"].([]any)
	if !ok {
		t.Fatalf("%v has no secrets", data)
	}
	secrets := make([]secret, len(list))
	for i, entry := range list {
		fields, _ := entry.(map[string]any)
		secrets[i] = secret{fmt.Sprint(fields["id"]), fmt.Sprint(fields["secret"])}
	}
	return secrets
}

func (p *process) secrets(ref string) []secret {
	p.Helper()
	return secretsOf(p.TB, p.call(http.MethodGet, destinations+ref+"/secrets", nil, http.StatusOK))
}

// verified expects one signature by each of the secrets, and no other.
func verified(t testing.TB, got received, secrets ...string) {
	t.Helper()
	for _, secret := range secrets {
		verifier, err := standardwebhooks.NewWebhook(secret)
		if err != nil {
			t.Fatal(err)
		}
		if err := verifier.Verify(got.body, got.header); err != nil {
			t.Errorf("signature: %v", err)
		}
	}
	if n := len(strings.Fields(got.header.Get("webhook-signature"))); n != len(secrets) {
		t.Errorf("%d signatures, want %d", n, len(secrets))
	}
}

// announce publishes news on a subject.
func (p *process) announce(subject string, feed uuid.UUID) uuid.UUID {
	p.Helper()
	in := command.Publish{
		Type:    "news.item.added",
		Source:  "/news",
		Subject: subject,
		Data:    []byte(`{"id":"7","title":"Storm"}`),
	}
	if feed == uuid.Nil {
		in.Organization = p.organization
	} else {
		in.FeedType, in.FeedID = "news", feed
	}
	made, err := p.app.Commands.Publish(p.Context(), operator(), in)
	if err != nil {
		p.Fatal(err)
	}
	return made.ID
}

func operator() command.Caller { return command.Caller{Actor: "operator", RequestID: uuid.New()} }

// In a window the newest of a subject supersedes the older; a deletion discards those that no other subscription wants.
func TestSubscription_deletedDiscards(t *testing.T) {
	p := shared(t)
	url, arrived := p.endpoint(statuses(200))
	destination := p.connect("crm", url, 3600) // so that deliveries wait
	p.call(http.MethodPost, destinations+"crm/subscriptions", map[string]any{
		"externalId": "all",
		"eventTypes": []string{"*"},
		"scopeKind":  "all",
	}, http.StatusCreated)
	older := deliveryOf(p.announce("storm", uuid.Nil), destination)
	shared := deliveryOf(p.announce("storm", uuid.Nil), destination)
	p.settled(older, "superseded")
	p.delivery(shared, "waits", func(d map[string]any) bool { return d["status"] == "pending" })
	p.call(http.MethodDelete, destinations+"crm/subscriptions/all", nil, http.StatusOK)
	alone := deliveryOf(p.announce("flood", uuid.Nil), destination)
	if d := p.delivery(alone, "waits", func(map[string]any) bool { return true }); d["status"] != "pending" {
		t.Errorf("delivery = %v", d)
	}
	if d := p.delivery(shared, "was handed over", func(map[string]any) bool { return true }); d["status"] != "pending" {
		t.Errorf("a subscription that is left still wants it: %v", d)
	}
	p.call(http.MethodDelete, destinations+"crm/subscriptions/news", nil, http.StatusOK)
	for _, id := range []string{shared, alone} {
		d := p.settled(id, "discarded")
		if d["attemptCount"] != 0.0 || d["nextAttemptAt"] != nil || d["completedAt"] == nil {
			t.Errorf("discarded: %v", d)
		}
		p.refused(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusConflict, "ALREADY_EXISTS")
	}
	if n := p.total(destinations + "crm/deliveries?status=discarded"); n != 2 || len(arrived) > 0 {
		t.Errorf("%v discarded and %d sent, want 2 and 0", n, len(arrived))
	}
	if d := p.settled(older, "superseded"); d["attemptCount"] != 0.0 || d["nextAttemptAt"] != nil ||
		d["completedAt"] == nil || d["lastAttempt"] != nil {
		t.Errorf("superseded: %v", d)
	}
	p.refused(http.MethodPost, "/events/deliveries/"+older+"/replay", nil, http.StatusConflict, "ALREADY_EXISTS")
	if again := p.announce("fire", uuid.Nil); p.total(destinations+"crm/deliveries?status=pending") != 0 {
		t.Errorf("event %s went to a destination without a subscription", again)
	}
}

func TestSubscription_lostAccess(t *testing.T) {
	p := shared(t)
	url, arrived := p.endpoint(statuses(200))
	p.call(http.MethodPut, destinations+"crm", map[string]any{"name": "CRM", "config": map[string]any{"url": url}},
		http.StatusCreated)
	library, err := p.app.Commands.RegisterOrganization(t.Context(), operator(),
		command.RegisterOrganization{Name: "Library"})
	if err != nil {
		t.Fatal(err)
	}
	registered, err := p.app.Commands.RegisterFeed(t.Context(), operator(), command.RegisterFeed{
		FeedType:     "news",
		Organization: library.ID,
		Name:         "City",
	})
	if err != nil {
		t.Fatal(err)
	}
	share := command.ShareFeed{FeedType: "news", FeedID: registered.ID, Organization: p.organization}
	shared, err := p.app.Commands.ShareFeed(t.Context(), operator(), share)
	if err != nil {
		t.Fatal(err)
	}
	p.app.Progress.Await(t.Context(), shared.Position, feeds.ReadModel.Name, delivery.DispatcherName)
	const path = destinations + "crm/subscriptions/city"
	pinned := map[string]any{
		"eventTypes": []string{"news.*"},
		"scopeKind":  "feeds",
		"feeds":      []any{map[string]any{"feedType": "news", "feedId": registered.ID.String()}},
	}
	p.call(http.MethodPut, path, pinned, http.StatusCreated)
	p.announce("storm", registered.ID)
	delivered := p.await(arrived).header.Get("webhook-id")
	p.settled(delivered, "succeeded")

	if shared, err = p.app.Commands.UnshareFeed(t.Context(), operator(), command.UnshareFeed(share)); err != nil {
		t.Fatal(err)
	}
	p.eventually("the subscription is off", func() bool {
		return p.call(http.MethodGet, path, nil, http.StatusOK)["active"] == false
	})
	p.app.Progress.Await(t.Context(), shared.Position, feeds.ReadModel.Name)
	p.refused(http.MethodPatch, path, map[string]any{"active": true}, http.StatusNotFound, "NOT_FOUND")
	p.refused(http.MethodPut, path, pinned, http.StatusNotFound, "NOT_FOUND")
	p.refused(http.MethodPost, "/events/deliveries/"+delivered+"/replay", nil, http.StatusConflict, "ALREADY_EXISTS")
	p.announce("flood", registered.ID)

	if shared, err = p.app.Commands.ShareFeed(t.Context(), operator(), share); err != nil {
		t.Fatal(err)
	}
	p.app.Progress.Await(t.Context(), shared.Position, feeds.ReadModel.Name, delivery.DispatcherName)
	if s := p.call(http.MethodGet, path, nil, http.StatusOK); s["active"] != false {
		t.Error("access alone switched it on again")
	}
	p.call(http.MethodPatch, path, map[string]any{"active": true}, http.StatusOK)
	p.announce("fire", registered.ID)
	p.settled(p.await(arrived).header.Get("webhook-id"), "succeeded")
	if n := p.total(destinations + "crm/deliveries"); n != 2 {
		t.Errorf("%v deliveries, want those of the times when it was on", n)
	}
}

// Three destinations with the three scopes, and events of two feeds and of none.
func TestSubscription_scopes(t *testing.T) {
	p := shared(t)
	url, _ := p.endpoint(statuses(200))
	pins := make([]uuid.UUID, 2)
	for i := range pins {
		registered, err := p.app.Commands.RegisterFeed(t.Context(), operator(), command.RegisterFeed{
			FeedType:     "news",
			Organization: p.organization,
			Name:         "City",
		})
		if err != nil {
			t.Fatal(err)
		}
		p.app.Progress.Await(t.Context(), registered.Position, feeds.ReadModel.Name, delivery.DispatcherName)
		pins[i] = registered.ID
	}
	scopes := map[string]map[string]any{
		"all":    {"eventTypes": []string{"news.item.added"}, "scopeKind": "all"},
		"kind":   {"eventTypes": []string{"news.*"}, "scopeKind": "feed_type", "feedType": "news"},
		"events": {"eventTypes": []string{"*"}, "scopeKind": "feed_type", "feedType": "event"},
		"pinned": {
			"eventTypes": []string{"*"},
			"scopeKind":  "feeds",
			"feeds":      []any{map[string]any{"feedType": "news", "feedId": pins[0].String()}},
		},
		"facts": {"eventTypes": []string{"factcheck.*", "news.item.updated"}, "scopeKind": "all"},
	}
	ids := map[string]string{}
	for name, scope := range scopes {
		d := p.call(http.MethodPut, destinations+name, map[string]any{"name": name, "config": map[string]any{"url": url}},
			http.StatusCreated)
		p.call(http.MethodPut, destinations+name+"/subscriptions/s", scope, http.StatusCreated)
		ids[name] = fmt.Sprint(d["id"])
	}
	events := []uuid.UUID{p.announce("storm", uuid.Nil), p.announce("storm", pins[0]), p.announce("storm", pins[1])}
	for name, want := range map[string][]int{
		"all":    {0, 1, 2},
		"kind":   {1, 2},
		"pinned": {1},
		"events": nil,
		"facts":  nil,
	} {
		for _, i := range want {
			d := p.settled(deliveryOf(events[i], ids[name]), "succeeded")
			event, _ := d["event"].(map[string]any)
			if i > 0 && (event["feedType"] != "news" || event["feedId"] != pins[i-1].String()) {
				t.Errorf("event = %v, want its feed named", event)
			}
		}
		if n := p.total(destinations + name + "/deliveries"); n != float64(len(want)) {
			t.Errorf("%s: %v deliveries, want %v", name, n, want)
		}
	}
}

// raw is an answer's body as it came.
func (p *process) raw(path string) []byte {
	p.Helper()
	request, err := http.NewRequestWithContext(p.Context(), http.MethodGet, "http://"+p.app.APIAddr().String()+path,
		http.NoBody)
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		p.Fatal(err)
	}
	return body
}
