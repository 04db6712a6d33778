//go:build nightly

package app_test

import (
	"testing"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/query"
)

// Two processes dispatch, and both set the operators' address when they start: there is one, and of each notice one.
func TestOperatorWebhookOfTwoProcesses(t *testing.T) {
	p := startApart(t, config.RoleAPI, config.RoleProject)
	url, arrived := p.endpoint(statuses(200))
	p.cfg.OperatorWebhook, p.cfg.OperatorWebhookSecret = config.Address(url), operatorSecret
	p.beside(config.RoleDispatch, config.RoleDeliver)
	p.beside(config.RoleDispatch, config.RoleDeliver)
	p.operated("is there", func(query.Destination) bool { return true })
	gone, _ := p.endpoint(statuses(410))
	id := p.connect("gone", gone, 0)
	p.publish()
	p.toOperators(arrived, id)
	p.toOperators(arrived, id)
	count := func(question string) (n int) {
		if err := p.app.Queries.Pool.QueryRow(t.Context(), question, destination.Operators).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	const ofOperators = " WHERE organization = $1"
	p.eventually("both are recorded", func() bool {
		return count("SELECT count(*) FROM deliveries.due u JOIN destinations.destinations d ON d.id = u.destination"+
			" WHERE d.organization = $1") == 0
	})
	if n := count("SELECT count(*) FROM destinations.destinations" + ofOperators); n != 1 {
		t.Errorf("%d addresses of operators, want 1", n)
	}
	if len(arrived) > 0 {
		t.Errorf("%d more than one notice of each kind", len(arrived))
	}
}
