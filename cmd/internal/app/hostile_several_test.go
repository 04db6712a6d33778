package app_test

import (
	"crypto/tls"
	"net/http"
	"testing"

	"carillon/command/mtls/mtlstest"
)

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
	if status != http.StatusCreated {
		c.Fatalf("create: %d", status)
	}
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
