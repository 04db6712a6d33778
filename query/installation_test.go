package query_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/projections/projecttest"
)

func TestInstallationTotals(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t)
	totals := func() (pending, failed, autoDisabled int, overdue bool) {
		t.Helper()
		d.Project()
		found, err := d.InstallationTotals(t.Context(), midday)
		if err != nil {
			t.Fatal(err)
		}
		return found.Pending(), found.Failed, found.AutoDisabled, found.Overdue > 24*time.Hour
	}
	expect := func(when string, pending, failed, autoDisabled int, overdue bool) {
		t.Helper()
		if p, f, a, o := totals(); p != pending || f != failed || a != autoDisabled || o != overdue {
			t.Errorf("%s: %d pending, %d failed, %d auto-disabled, overdue %t", when, p, f, a, o)
		}
	}
	expect("empty", 0, 0, 0, false)
	d.destination(hook, acme, "crm", midday)
	d.destination(other, acme, "erp", midday)
	first := d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday, toHook(0, time.Time{}))
	d.scheduled(uuid.New(), "news.item.added", uuid.Nil, midday, toHook(0, time.Time{}))
	expect("two are due", 2, 0, 0, true)
	projecttest.Stream(d.Log, delivery.Aggregate, first, midday)(delivery.Attempted{
		Organization: acme,
		Destination:  hook,
		Number:       1,
		Trigger:      delivery.Automatic,
		Status:       delivery.StatusFailed,
		At:           midday,
		Outcome:      delivery.Outcome{FailureReason: "http_status", ResponseStatus: 500},
	})
	expect("one has failed", 1, 1, 0, true)
	projecttest.Stream(d.Log, organization.Aggregate, acme, midday)(
		organization.Registered{Name: "Acme", At: midday}, organization.Suspended{At: midday})
	expect("the organization is suspended", 1, 1, 0, false)
	projecttest.Stream(d.Log, destination.Aggregate, hook, midday)(
		destination.AutoDisabled{Reason: "100 failures", At: midday})
	expect("the destination is auto-disabled", 1, 1, 1, false)
}
