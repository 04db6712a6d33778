package app_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/uuid"

	"carillon/command"
	"carillon/command/mtls/mtlstest"
	"carillon/command/sealing"
	"carillon/eventstore/storetest/must"
)

// TestHostileNamesReachNothing: a page whose name was made to lead to this machine (DNS rebinding) reads nothing of the
// admin listener, routes without a token and the operators' console included.
func TestHostileNamesReachNothing(t *testing.T) {
	p := shared(t)
	hosts := map[string]bool{
		"127.0.0.1:8081": true, "127.0.0.1": true, "[::1]:8081": true, "192.0.2.7:8081": true, "localhost:8081": true,
		"LOCALHOST":      true,
		"admin.internal": true, "Admin.Internal.:8081": true,
		"evil.example": false, "evil.example:8081": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"admin.internal.evil.example": false, "notlocalhost": false,
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/console", "/console/signin",
		"/admin/organizations", "/debug/pprof/heap", "/nowhere"} {
		for host, may := range hosts {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.app.AdminAddr().String()+path,
				http.NoBody)
			must.OK(t, err)
			request.Host = host
			response, err := http.DefaultTransport.RoundTrip(request)
			must.OK(t, err)
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			must.OK(t, err)
			if refused := response.StatusCode == http.StatusMisdirectedRequest; refused == may ||
				refused && !strings.Contains(string(body), "CARILLON_ADMIN_HOSTS") {
				t.Errorf("GET %s of %q: %d %.200s", path, host, response.StatusCode, body)
			}
		}
	}
}

// Two servers on one event store and one Postgres agree on client certificates.
func TestHostileSeveral_agree(t *testing.T) {
	t.Parallel()
	c := newCluster(t, layout{servers: 2})
	c.certificatesFollow()
}

// certificatesFollow sets, replaces and removes a client certificate at one server: the other shows the same.
func (c *cluster) certificatesFollow() {
	c.Helper()
	authority := mtlstest.NewAuthority(c.T, "Receiver's")
	r := wanting(c.T, c.data, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert})
	status := c.ask(http.MethodPut, c.apis[0]+"/events/destinations/crm", map[string]any{
		"name":   "CRM",
		"config": map[string]any{"url": r.URL + "/hook"},
	}, nil)
	must.True(c, status == http.StatusCreated, "create: %d", status)
	path := "/admin/organizations/" + organization.String() + "/client-certificate"
	both := func(name string) {
		c.Helper()
		for _, api := range c.apis {
			c.eventually("each server shows "+name, func() bool {
				before := len(r.Shown())
				status := c.ask(http.MethodPost, api+"/events/destinations/crm/test", nil, nil)
				shown := r.Shown()
				return status == http.StatusOK && len(shown) > before && shown[len(shown)-1] == name
			})
		}
	}
	both("")
	for i, name := range []string{"first", "second", "third"} {
		pair := authority.Issue(name, nil)
		status := c.ask(http.MethodPut, c.admins[i%2]+path, map[string]string{
			"certificate": pair.Chain,
			"privateKey":  pair.Key,
		}, nil)
		if want := []int{http.StatusCreated, http.StatusOK, http.StatusOK}[i]; status != want {
			c.Errorf("set %s: %d, want %d", name, status, want)
		}
		both(name)
	}
	c.servers[1].Kill()
	if status := c.ask(http.MethodDelete, c.admins[0]+path, nil, nil); status != http.StatusOK {
		c.Errorf("remove: %d", status)
	}
	c.servers[1].Start()
	c.eventually("the other server did not come up", func() bool { return c.ready(1) })
	both("")
	var keys int
	c.eventually("the keys of certificates that ended are gone", func() bool {
		err := c.pool.QueryRow(c.Context(), `SELECT count(*) FROM carillon.data_keys k
			JOIN client_certificates.certificates c USING (id)`).Scan(&keys)
		return err == nil && keys == 0
	})
}

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
	must.Get(p.app.Commands.ResumeOrganization(t.Context(), operator, command.ResumeOrganization{Organization: org}))(t)
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
		must.Get(p.app.Commands.DeleteOrganization(t.Context(), operator, command.DeleteOrganization{Organization: org}))(t)
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
