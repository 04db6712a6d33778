package query_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/projections/audit"
	"carillon/projections/destinations"
	"carillon/query"
)

// The list has all destinations that are counted, also before the audit trail has them, and never another
// organization's.
func TestRecipients_auditTrailBehind(t *testing.T) {
	t.Parallel()
	d := newDeliverySide(t, audit.ReadModel)
	d.destination(hook, acme, "crm", midday)
	want := []query.Recipient{{
		ID:        hook,
		Name:      "CRM",
		Status:    "enabled",
		Then:      "enabled",
		CreatedAt: midday,
	}}
	check := func(when string) {
		t.Helper()
		at := midday.Add(time.Hour)
		ids, err := d.RecipientIDs(t.Context(), acme, at)
		if err != nil {
			t.Fatal(err)
		}
		got, err := d.Recipients(t.Context(), acme, ids, at)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, utc); diff != "" {
			t.Errorf("%s (-want +got):\n%s", when, diff)
		}
		if others, err := d.Recipients(t.Context(), uuid.New(), ids, at); err != nil || len(others) != 0 {
			t.Errorf("%s another organization sees %v, %v", when, others, err)
		}
	}
	d.ProjectOn(destinations.ReadModel, 10)
	check("before the audit trail")
	d.ProjectOn(audit.ReadModel, 10)
	check("after it")
}
