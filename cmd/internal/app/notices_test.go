package app_test

import (
	"net/http"
	"testing"

	"github.com/go-json-experiment/json"
)

// The address for notices gets what happens to another destination, signed by its own secret, without a subscription,
// and what is subscribed by a wildcard does not contain notices.
func TestNoticesAreDelivered(t *testing.T) {
	p := shared(t)
	url, arrived := p.endpoint(statuses(200))
	made := p.call(http.MethodPut, "/events/notices",
		map[string]any{"name": "Notices", "config": map[string]any{"url": url}}, http.StatusCreated)
	secret := secretsOf(t, made)[0].secret
	gone, _ := p.endpoint(statuses(410))
	destination := p.connect("gone", gone, 0)
	everything, others := p.endpoint(statuses(200))
	p.destination("others", everything, 0)
	p.call(http.MethodPut, destinations+"others/subscriptions/all",
		map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"}, http.StatusCreated)
	id := deliveryOf(p.publish(), destination)
	want := map[string]bool{"delivery.exhausted": true, "destination.auto_disabled": true}
	for range 2 {
		webhook := p.await(arrived)
		verified(t, webhook, secret)
		var envelope struct {
			Type    string `json:"type"`
			Subject string `json:"subject"`
			Data    struct {
				Destination string `json:"destinationId"`
				Delivery    string `json:"deliveryId"`
				Count       int    `json:"count"`
				Message     string `json:"message"`
			} `json:"data"`
		}
		if err := json.Unmarshal(webhook.body, &envelope); err != nil {
			t.Fatal(err)
		}
		data := envelope.Data
		if !want[envelope.Type] || envelope.Subject != destination || data.Destination != destination || data.Count != 1 ||
			data.Message == "" || envelope.Type == "delivery.exhausted" && data.Delivery != id {
			t.Errorf("got %s", webhook.body)
		}
		delete(want, envelope.Type)
		shown := p.settled(webhook.header.Get("webhook-id"), "succeeded")
		if event, _ := shown["event"].(map[string]any); event["type"] != envelope.Type {
			t.Errorf("shown %v", shown)
		}
	}
	p.await(others)
	p.publish() // after the notices
	p.await(others)
	p.eventually("both are listed", func() bool { return p.total(destinations+"others/deliveries") >= 2 })
	if n := p.total(destinations + "others/deliveries"); n != 2 {
		t.Errorf("%v deliveries to another, want the 2 that were published", n)
	}
}
