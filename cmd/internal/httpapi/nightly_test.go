//go:build nightly

package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"
)

// As many deliveries as may be are made by one backfill.
func TestBackfillOfTheCap(t *testing.T) {
	s := serve(t)
	s.subscribed(t, "crm")
	s.publishMany(t, 10_000, "news.item.added")
	var done struct {
		EventsScanned     int `json:"eventsScanned"`
		DeliveriesCreated int `json:"deliveriesCreated"`
	}
	s.post(t, destinationsPath+"/crm/backfill", backfillOfMany).into(t, 200, &done)
	if done.EventsScanned != 10_000 || done.DeliveriesCreated != 10_000 {
		t.Errorf("backfill of exactly the cap = %+v", done)
	}
}

// A node that ends is waited for as long as an election may take, then the request is refused.
func TestNodeGone(t *testing.T) {
	s := serveAlone(t)
	s.get(t, feedsPath).into(t, 200, new(any))
	s.StopStore()
	for _, in := range []request{
		{method: "POST", path: feedsPath, body: `{"name":"x","description":"y"}`},
		{method: "PATCH", path: feedsPath + "/" + uuid.NewString(), body: `{"name":"x"}`},
	} {
		s.do(t, in).refused(t, 503, "SERVICE_UNAVAILABLE", "try it again")
	}
	s.get(t, feedsPath).into(t, 200, new(any))
	if !strings.Contains(s.Logged.String(), "level=WARN") {
		t.Error("the operator hears nothing of it")
	}
}
