package app_test

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/suite/children"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

const nextSecret = "whsec_dHdvIHNlY3JldHMgb2YgdGhlIG9wZXJhdG9ycywgbG9uZw=="

// operatorWebhook returns the destination of the operators.
func (p *process) operatorWebhook() (query.Destination, error) {
	return p.app.Queries.Destination(p.Context(), destination.Operators, destination.NoticesExternalID, time.Now())
}

// operated waits until the destination of the operators is as it is wanted.
func (p *process) operated(what string, is func(query.Destination) bool) {
	p.Helper()
	p.eventually("the operators' address "+what, func() bool {
		found, err := p.operatorWebhook()
		return err == nil && is(found)
	})
}

// An organization's address for notices gets what happens to another destination, and the operators' address what
// happens to those of all organizations, each signed by its own secret; no subscription does, and no organization sees
// the operators'. Another secret of theirs signs beside the former one, a start without their address ends it.
func TestNoticesAreDelivered(t *testing.T) {
	t.Parallel()
	p := prepare(t, nil)
	url, operators := p.endpoint(statuses(200))
	p.cfg.OperatorWebhook, p.cfg.OperatorWebhookSecret = config.Address(url), children.OperatorSecret
	p.open()
	p.operated("is there", func(query.Destination) bool { return true })
	p.call(http.MethodGet, "/events/notices", nil, http.StatusNotFound)
	url, ours := p.endpoint(statuses(200))
	made := p.call(http.MethodPut, "/events/notices",
		map[string]any{"name": "Notices", "config": map[string]any{"url": url}}, http.StatusCreated)
	everything, others := p.endpoint(statuses(200))
	p.destination("others", everything, 0)
	p.call(http.MethodPut, destinations+"others/subscriptions/all",
		map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"}, http.StatusCreated)
	gone, _ := p.endpoint(statuses(410))
	id := p.connect("gone", gone, 0)
	delivery := deliveryOf(p.publish(), id)
	for _, webhook := range p.notices(ours, "", id, delivery, secretsOf(t, made)[0].secret) {
		shown := p.settled(webhook.header.Get("webhook-id"), "succeeded")
		event, _ := shown["event"].(map[string]any)
		assert.True(t, bytes.Contains(webhook.body, fmt.Appendf(nil, "%q", event["type"])), "shown %v", shown)
	}
	for _, webhook := range p.notices(operators, p.organization.String(), id, delivery, children.OperatorSecret) {
		p.call(http.MethodGet, "/events/deliveries/"+webhook.header.Get("webhook-id"), nil, http.StatusNotFound)
	}
	p.await(others)
	p.publish() // after the notices
	p.await(others)
	p.eventually("both are listed", func() bool { return p.total(destinations+"others/deliveries") >= 2 })
	if n, m := p.total(destinations+"others/deliveries"), p.total("/events/destinations"); n != 2 || m != 3 {
		t.Errorf("%v deliveries to another, want the 2 that were published; %v destinations are listed, want 3", n, m)
	}

	p.close()
	p.cfg.OperatorWebhookSecret = nextSecret
	p.open()
	p.operated("has another secret", func(d query.Destination) bool { return len(d.Secrets) == 2 })
	id = p.connect("another", gone, 0)
	p.notices(operators, p.organization.String(), id, deliveryOf(p.publish(), id), children.OperatorSecret, nextSecret)

	p.close()
	p.cfg.OperatorWebhook, p.cfg.OperatorWebhookSecret = "", ""
	p.open()
	p.eventually("the operators' address is gone", func() bool {
		_, err := p.operatorWebhook()
		return errors.Is(err, query.ErrNotFound)
	})
}

// notices waits for the two notices about a destination that is gone, signed by some secrets. Only those for operators
// name the organization.
func (p *process) notices(
	arrived <-chan received, organization, id, delivery string, secrets ...string,
) (webhooks []received) {
	p.Helper()
	want := map[string]bool{"delivery.exhausted": true, "destination.auto_disabled": true}
	for range 2 {
		webhook := p.await(arrived)
		verified(p.TB, webhook, secrets...)
		var envelope struct {
			Type    string `json:"type"`
			Subject string `json:"subject"`
			Data    struct {
				Organization string `json:"organizationId"`
				Destination  string `json:"destinationId"`
				Delivery     string `json:"deliveryId"`
				Count        int    `json:"count"`
				Message      string `json:"message"`
			} `json:"data"`
		}
		must.OK(p, json.Unmarshal(webhook.body, &envelope))
		data := envelope.Data
		if !want[envelope.Type] || envelope.Subject != id || data.Destination != id || data.Count != 1 ||
			data.Organization != organization || data.Message == "" ||
			envelope.Type == "delivery.exhausted" && data.Delivery != delivery {
			p.Errorf("got %s", webhook.body)
		}
		delete(want, envelope.Type)
		webhooks = append(webhooks, webhook)
	}
	return webhooks
}
