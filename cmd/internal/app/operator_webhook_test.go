package app_test

import (
	"bytes"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/query"
)

const (
	operatorSecret = "whsec_b25lIHNlY3JldCBvZiB0aGUgb3BlcmF0b3JzLCBsb25nIQ=="
	nextSecret     = "whsec_dHdvIHNlY3JldHMgb2YgdGhlIG9wZXJhdG9ycywgbG9uZw=="
)

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

// The operators' address gets the notices of all organizations, signed by its secret, and no organization sees it.
// Another secret signs beside the former one, another start without an address ends it.
func TestOperatorWebhookIsDelivered(t *testing.T) {
	t.Parallel()
	p := prepare(t, nil)
	url, arrived := p.endpoint(statuses(200))
	p.cfg.OperatorWebhook, p.cfg.OperatorWebhookSecret = config.Address(url), operatorSecret
	p.open()
	p.operated("is there", func(query.Destination) bool { return true })
	gone, _ := p.endpoint(statuses(410))
	id := p.connect("gone", gone, 0)
	p.publish()
	webhook := p.toOperators(arrived, id)
	verified(t, webhook, operatorSecret)
	p.toOperators(arrived, id)
	p.eventually("it is listed", func() bool { return p.total("/events/destinations") >= 1 })
	if n := p.total("/events/destinations"); n != 1 {
		t.Errorf("%v destinations are listed, want that of the organization", n)
	}
	p.call(http.MethodGet, "/events/deliveries/"+webhook.header.Get("webhook-id"), nil, http.StatusNotFound)
	p.call(http.MethodGet, "/events/notices", nil, http.StatusNotFound)

	p.close()
	p.cfg.OperatorWebhookSecret = nextSecret
	p.open()
	p.operated("has another secret", func(d query.Destination) bool { return len(d.Secrets) == 2 })
	id = p.connect("another", gone, 0)
	p.publish()
	verified(t, p.toOperators(arrived, id), operatorSecret, nextSecret)

	p.close()
	p.cfg.OperatorWebhook, p.cfg.OperatorWebhookSecret = "", ""
	p.open()
	p.eventually("the operators' address is gone", func() bool {
		_, err := p.operatorWebhook()
		return errors.Is(err, query.ErrNotFound)
	})
}

// toOperators waits for a notice about a destination of the organization.
func (p *process) toOperators(arrived <-chan received, id string) received {
	p.Helper()
	webhook := p.await(arrived)
	var envelope struct {
		Type string `json:"type"`
		Data struct {
			Organization string `json:"organizationId"`
			Destination  string `json:"destinationId"`
		} `json:"data"`
	}
	if err := json.Unmarshal(webhook.body, &envelope); err != nil {
		p.Fatal(err)
	}
	if envelope.Data.Organization != p.organization.String() || envelope.Data.Destination != id {
		p.Errorf("got %s", bytes.TrimSpace(webhook.body))
	}
	return webhook
}
