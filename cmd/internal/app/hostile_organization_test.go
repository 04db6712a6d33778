package app_test

import (
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"carillon/command"
	"carillon/command/mtls/mtlstest"
	"carillon/command/sealing"
	"carillon/eventstore/storetest/must"
)

// Events published for a suspended organization wait until it is resumed; when the organization is deleted, all its
// work ends, and its data keys are shredded.
func TestOrganization_suspendedAndDeleted(t *testing.T) {
	p := shared(t)
	operator, org := operator(), p.organization
	url, arrived := p.endpoint(statuses(200))
	destination := uuid.MustParse(p.connect("crm", url, 0))
	p.publish()
	p.await(arrived)

	must.Get(p.app.Commands.SuspendOrganization(t.Context(), operator, command.SuspendOrganization{
		Organization: org,
		Reason:       "unpaid",
	}))(t)
	p.eventually("its keys open nothing", func() bool {
		status, _ := p.try(http.MethodGet, "/events/types", nil)
		return status == http.StatusUnauthorized
	})
	var early atomic.Int64
	for range 3 {
		p.publish()
	}
	p.eventually("the deliveries wait", func() bool {
		return p.count("SELECT count(*) FROM deliveries.due WHERE worker IS NULL AND destination = $1", destination) == 3
	})
	select {
	case <-arrived:
		early.Add(1)
		t.Error("a webhook arrived of an organization that is suspended")
	default:
	}
	must.Get(p.app.Commands.ResumeOrganization(t.Context(), operator,
		command.ResumeOrganization{Organization: org}))(t)
	for range 3 - early.Load() {
		p.await(arrived)
	}
	p.eventually("its keys work again", func() bool {
		status, _ := p.try(http.MethodGet, "/events/types", nil)
		return status == http.StatusOK
	})

	p.call(http.MethodPost, "/feeds/events", map[string]any{"name": "n", "description": "d"}, http.StatusCreated)
	p.certify(mtlstest.NewAuthority(t, "Receiver's").Issue("ours", nil))
	certificate := p.certificate()
	for range 2 { // the second time changes nothing
		must.Get(p.app.Commands.DeleteOrganization(t.Context(), operator,
			command.DeleteOrganization{Organization: org}))(t)
	}
	for table, column := range map[string]string{
		"organizations.organizations": "id", "organizations.keys": "organization", "feeds.feeds": "organization",
		"destinations.destinations": "organization", "client_certificates.certificates": "organization",
		"subscriptions.subscriptions": "organization",
	} {
		gone := fmt.Sprintf("SELECT count(*) FROM %s WHERE %s = $1", table, column)
		if table == "client_certificates.certificates" {
			gone += " AND ended_at IS NULL"
		}
		p.eventually(gone+" is 0", func() bool { return p.count(gone, org) == 0 })
	}
	for _, owner := range []uuid.UUID{destination, certificate} {
		p.eventually("the data key is shredded", func() bool {
			_, err := p.app.Commands.Vault.Seal(t.Context(), owner, sealing.Secret, []byte("x"))
			return errors.Is(err, sealing.ErrShredded)
		})
	}
	p.eventually("its keys open nothing", func() bool {
		status, _ := p.try(http.MethodGet, "/events/types", nil)
		return status == http.StatusUnauthorized
	})
}

// count is the result of a query; -1 while Postgres is away.
func (p *process) count(question string, arguments ...any) int {
	n := -1
	_ = p.app.Queries.Pool.QueryRow(p.Context(), question, arguments...).Scan(&n)
	return n
}
