package app_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/aggregates/destination"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A published event arrives once, signed, is shown as it was sent, and is signed by both secrets while two are there.
func TestDelivery_signedAndShown(t *testing.T) {
	p := shared(t)
	url, arrived := p.endpoint(statuses(200))
	destination := p.connect("crm", url, 0)
	first := p.secrets("crm")[0]
	event := p.announce("storm")
	webhook := p.await(arrived)
	verified(t, webhook, first.secret)
	id := deliveryOf(event, destination)
	assert.True(t, webhook.header.Get("webhook-id") == id && webhook.header.Get("webhook-timestamp") != "",
		"headers = %v", webhook.header)
	attempts, ok := p.settled(id, "succeeded")["attempts"].([]any)
	assert.True(t, ok && len(attempts) == 1, "attempts = %v, want one", attempts)
	var shown struct {
		Data struct{ Event struct{ Data jsontext.Value } }
	}
	var envelope struct {
		ID, Type, Source, Subject, Time string
		Data                            jsontext.Value
	}
	must.OK(t, json.Unmarshal(webhook.body, &envelope, json.MatchCaseInsensitiveNames(true)))
	must.OK(t, json.Unmarshal(p.raw("/events/deliveries/"+id), &shown, json.MatchCaseInsensitiveNames(true)))
	assert.True(t, bytes.Equal(envelope.Data, shown.Data.Event.Data) && len(envelope.Data) != 0,
		"sent %s, shown %s", envelope.Data, shown.Data.Event.Data)
	assert.True(t, envelope.ID == event.String() && envelope.Type == "news.item.added" && envelope.Source == "/news" &&
		envelope.Subject == "storm" && envelope.Time != "", "envelope = %s", webhook.body)

	both := secretsOf(t, p.call(http.MethodPost, destinations+"crm/secrets/rotate", map[string]any{}, http.StatusOK))
	p.publish()
	verified(t, p.await(arrived), both[0].secret, first.secret)
	p.call(http.MethodPost, destinations+"crm/secrets/"+first.id+"/expire", nil, http.StatusOK)
	p.publish()
	verified(t, p.await(arrived), both[0].secret)
}

// A delivery keeps its id and its body, byte for byte, through its retries and its replay, whether it was handed over
// or claimed, and the destination's health follows.
func TestDelivery_retriedAndReplayed(t *testing.T) {
	p := shared(t)
	url, arrived := p.endpoint(statuses(500, 500, 500, 200)) // two waits make three attempts
	destination := p.connect("crm", url, 0)
	id := deliveryOf(p.publish(), destination)
	failed := p.settled(id, "failed")
	assert.True(t, failed["nextAttemptAt"] == nil && failed["completedAt"] != nil && failed["attemptCount"] == 3.0,
		"failed: %v", failed)
	p.eventually("its health shows the streak", func() bool {
		d := p.call(http.MethodGet, destinations+"crm", nil, http.StatusOK)
		return d["consecutiveFailures"] == 3.0 && d["lastFailureAt"] != nil && d["lastErrorMessage"] != nil &&
			d["lastSuccessAt"] == nil
	})
	p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "disabled", "debounceWindowSeconds": 3600},
		http.StatusOK)
	run := p.call(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusAccepted)
	assert.True(t, run["deliveryId"] == id && run["workflowId"] != id, "replay = %v", run)
	var body []byte
	for i := range 4 { // the last one although the destination is disabled, and without a debounce window
		got := p.await(arrived)
		assert.Equal(t, got.header.Get("webhook-id"), id, "webhook-id … want the same for all attempts")
		if i == 0 {
			body = got.body
		}
		assert.True(t, bytes.Equal(got.body, body), "attempt %d sent %s, the first one %s", i+1, got.body, body)
	}
	replayed := p.settled(id, "succeeded")
	event, _ := replayed["event"].(map[string]any)
	sequence, _ := event["sequence"].(string)
	assert.True(t, len(sequence) == 20 && bytes.Contains(body, []byte(`"sequence":"`+sequence)),
		"the sequence shown is %v, sent was %s", event["sequence"], body)
	last := lastAttempt(t, replayed)
	assert.True(t, last["trigger"] == "manual_replay" && last["attemptNumber"] == 4.0 && last["responseStatus"] == 200.0,
		"last attempt = %v", last)
	p.eventually("its health is mended", func() bool {
		d := p.call(http.MethodGet, destinations+"crm", nil, http.StatusOK)
		return d["consecutiveFailures"] == 0.0 && d["lastFailureAt"] == nil && d["lastErrorMessage"] == nil &&
			d["lastSuccessAt"] != nil
	})
}

// A deletion ends waiting deliveries, those in flight end by themselves, and the deletion is finished if its process
// died just then.
func TestDestination_deletedInFlight(t *testing.T) {
	p := shared(t)
	let := make(chan struct{})
	url, arrived := p.endpoint(func(w http.ResponseWriter, r *http.Request, n int) {
		if n == 1 {
			w.WriteHeader(http.StatusInternalServerError) // this one waits for its retry
			return
		}
		select {
		case <-let:
		case <-r.Context().Done():
		}
	})
	destination := p.connect("crm", url, 0)
	p.destination("other", url, 0)
	event := p.publish()
	p.await(arrived)
	p.await(arrived)
	id := deliveryOf(event, destination)
	p.call(http.MethodDelete, destinations+"crm", nil, http.StatusOK)
	p.refused(http.MethodGet, "/events/deliveries/"+id, nil, http.StatusNotFound, "NOT_FOUND")
	p.refused(http.MethodPost, "/events/deliveries/"+id+"/replay", nil, http.StatusNotFound, "NOT_FOUND")
	p.refused(http.MethodGet, destinations+"crm/deliveries", nil, http.StatusNotFound, "NOT_FOUND")
	close(let)
	if again := p.publish(); p.total(destinations+"other/deliveries") != 0 {
		t.Errorf("event %s went to a destination without a subscription", again)
	}
	p.refused(http.MethodGet, "/events/deliveries/"+id, nil, http.StatusNotFound, "NOT_FOUND")
	assert.True(t, len(arrived) == 0, "something was sent after the deletion")
	p.finishesDeletion()
}

// finishesDeletion deletes a destination as a process does that dies as soon as the event is recorded.
func (p *process) finishesDeletion() {
	p.Helper()
	id := uuid.MustParse(p.connect("cut-off", nowhere, 0))
	command := destination.Delete{Organization: p.organization, At: time.Now().UTC().Truncate(time.Microsecond)}
	metadata := eventstore.Metadata{Organization: p.organization, Actor: "key:test"}
	must.Get(destination.Aggregate.Execute(p.Context(), p.app.Commands.Store, id,
		command, destination.Options{Metadata: metadata}))(p)
	assert.True(p, p.connect("cut-off", nowhere, 0) != id.String(), "the deleted destination is back")
	p.eventually("its data key is gone", func() bool {
		return p.count("SELECT count(*) FROM carillon.data_keys WHERE id = $1", id) == 0
	})
}

// A destination that hangs holds back no other of its organization.
func TestDestinations_manyBesideOneThatHangs(t *testing.T) {
	p := shared(t)
	hanging, _ := p.endpoint(func(http.ResponseWriter, *http.Request, int) { p.untilClosed(nil) })
	p.connect("hanging", hanging, 0)
	url, arrived := p.endpoint(statuses(http.StatusOK))
	p.connect("other", url, 0)
	const events = 80 // more than fit in flight to one destination
	for range events {
		p.publish()
	}
	for range events { // while the first still hangs
		p.await(arrived)
	}
}

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
