package app_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

type secret struct{ id, secret string }

func secretsOf(t testing.TB, data map[string]any) []secret {
	t.Helper()
	list, ok := data["secrets"].([]any)
	must.True(t, ok, "%v has no secrets", data)
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
		verifier := must.Get(standardwebhooks.NewWebhook(secret))(t)
		must.OK(t, verifier.Verify(got.body, got.header))
	}
	assert.Equal(t, len(strings.Fields(got.header.Get("webhook-signature"))), len(secrets), "signatures")
}

// announce publishes news on a subject.
func (p *process) announce(subject string) uuid.UUID {
	p.Helper()
	made := must.Get(p.app.Commands.Publish(p.Context(), operator(), command.Publish{
		Type:         "news.item.added",
		Source:       "/news",
		Subject:      subject,
		Organization: p.organization,
		Data:         []byte(`{"id":"7","title":"Storm"}`),
	}))(p)
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
	older := deliveryOf(p.announce("storm"), destination)
	shared := deliveryOf(p.announce("storm"), destination)
	p.settled(older, "superseded")
	p.delivery(shared, "waits", func(d map[string]any) bool { return d["status"] == "pending" })
	p.call(http.MethodDelete, destinations+"crm/subscriptions/all", nil, http.StatusOK)
	alone := deliveryOf(p.announce("flood"), destination)
	if d := p.delivery(alone, "waits", func(map[string]any) bool { return true }); d["status"] != "pending" {
		t.Errorf("delivery = %v", d)
	}
	if d := p.delivery(shared, "was handed over", func(map[string]any) bool { return true }); d["status"] != "pending" {
		t.Errorf("a subscription that is left still wants it: %v", d)
	}
	p.call(http.MethodDelete, destinations+"crm/subscriptions/news", nil, http.StatusOK)
	for _, id := range []string{shared, alone} {
		d := p.settled(id, "discarded")
		assert.True(t, d["attemptCount"] == 0.0 && d["nextAttemptAt"] == nil && d["completedAt"] != nil, "discarded: %v", d)
		p.refused(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusConflict, "ALREADY_EXISTS")
	}
	n := p.total(destinations + "crm/deliveries?status=discarded")
	assert.True(t, n == 2 && len(arrived) == 0, "%v discarded and %d sent, want 2 and 0", n, len(arrived))
	if d := p.settled(older, "superseded"); d["attemptCount"] != 0.0 || d["nextAttemptAt"] != nil ||
		d["completedAt"] == nil || d["lastAttempt"] != nil {
		t.Errorf("superseded: %v", d)
	}
	p.refused(http.MethodPost, "/events/deliveries/"+older+"/replay", nil, http.StatusConflict, "ALREADY_EXISTS")
	if again := p.announce("fire"); p.total(destinations+"crm/deliveries?status=pending") != 0 {
		t.Errorf("event %s went to a destination without a subscription", again)
	}
}
