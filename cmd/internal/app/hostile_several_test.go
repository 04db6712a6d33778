package app_test

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"testing"

	"carillon/command/mtls/mtlstest"
)

// Two servers on one event store and one Postgres agree on credentials, client certificates and limits.
func TestHostileSeveral_agree(t *testing.T) {
	s := newSeveral(t, 2, false)
	s.credentialsEnd()
	s.certificatesFollow()
	s.limitsHold()
}

// credentialsEnd rotates, without an overlap, and revokes a key and an operator's token at one server: the other
// refuses them as well, and their successors open both.
func (s *several) credentialsEnd() {
	s.Helper()
	status := func(url, credential string) int {
		request, err := http.NewRequestWithContext(s.Context(), http.MethodGet, url, http.NoBody)
		if err != nil {
			s.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+credential)
		answer, err := impatient.Do(request)
		if err != nil {
			return 0
		}
		_ = answer.Body.Close()
		return answer.StatusCode
	}
	var issued struct {
		ID    string `json:"id"`
		Key   string `json:"key"`
		Token string `json:"token"`
	}
	change := func(method, path string, body any, want int) {
		s.Helper()
		if got := s.ask(method, s.admins[0]+path, body, &issued); got != want {
			s.Fatalf("%s %s: %d", method, path, got)
		}
	}
	everywhere := func(what string, want int, credential string, urls ...string) {
		s.Helper()
		for _, url := range urls {
			s.eventually(fmt.Sprintf("%s is not answered %d by %s", what, want, url), func() bool {
				return status(url, credential) == want
			})
		}
		for _, url := range urls { // and ended sessions do not come back
			if got := status(url, credential); got != want && got != 0 {
				s.Errorf("%s is answered %d by %s, after %d", what, got, url, want)
			}
		}
	}
	apis := []string{s.apis[0] + "/events/types", s.apis[1] + "/events/types"}
	admins := []string{s.admins[0] + "/admin/organizations", s.admins[1] + "/admin/organizations"}
	keys, now := "/admin/organizations/"+organization.String()+"/keys", map[string]int{"overlapSeconds": 0}

	change(http.MethodPost, keys, map[string]string{"name": "web site"}, http.StatusCreated)
	first := issued
	everywhere("a new key", http.StatusOK, first.Key, apis...)
	change(http.MethodPost, keys+"/"+first.ID+"/rotate", now, http.StatusCreated)
	second := issued
	everywhere("a rotated key", http.StatusUnauthorized, first.Key, apis...)
	everywhere("its successor", http.StatusOK, second.Key, apis...)
	change(http.MethodDelete, keys+"/"+second.ID, nil, http.StatusOK)
	everywhere("a revoked key", http.StatusUnauthorized, second.Key, apis...)

	change(http.MethodPost, "/admin/operators", map[string]string{"name": "ann"}, http.StatusCreated)
	before := issued
	everywhere("a new token", http.StatusOK, before.Token, admins...)
	change(http.MethodPost, "/admin/operators/ann/rotate", now, http.StatusCreated)
	after := issued
	everywhere("a rotated token", http.StatusUnauthorized, before.Token, admins...)
	everywhere("its successor", http.StatusOK, after.Token, admins...)
	change(http.MethodDelete, "/admin/operators/ann", nil, http.StatusOK)
	everywhere("a revoked token", http.StatusUnauthorized, after.Token, admins...)
}

// limitsHold asks both servers at the same time: no more gets through than of one.
func (s *several) limitsHold() {
	s.Helper()
	const most, tries = 5, 24 // one of them is there
	limits := s.admins[1] + "/admin/organizations/" + organization.String() + "/limits"
	if status := s.ask(http.MethodPut, limits, map[string]int{"destinations": most}, nil); status != http.StatusOK {
		s.Fatalf("limits: %d", status)
	}
	if got := s.destinations(tries); got[http.StatusCreated] != most-1 || got[http.StatusConflict] != tries-most+1 {
		s.Errorf("destinations are answered %v, want %d of 201 and the rest of 409", got, most-1)
	}
	s.eventually("all of them are there", func() bool {
		return s.count("SELECT count(*) FROM destinations.destinations") == most
	})
}

// certificatesFollow sets, replaces and removes a client certificate at one server: the other shows the same.
func (s *several) certificatesFollow() {
	s.Helper()
	authority := mtlstest.NewAuthority(s.T, "Receiver's")
	r := wanting(s.T, s.data, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert})
	status := s.ask(http.MethodPut, s.apis[0]+"/events/destinations/crm", map[string]any{
		"name":   "CRM",
		"config": map[string]any{"url": r.URL + "/hook"},
	}, nil)
	if status != http.StatusCreated {
		s.Fatalf("create: %d", status)
	}
	path := "/admin/organizations/" + organization.String() + "/client-certificate"
	both := func(name string) {
		s.Helper()
		for _, api := range s.apis {
			s.eventually("each server shows "+name, func() bool {
				before := len(r.Shown())
				status := s.ask(http.MethodPost, api+"/events/destinations/crm/test", nil, nil)
				shown := r.Shown()
				return status == http.StatusOK && len(shown) > before && shown[len(shown)-1] == name
			})
		}
	}
	both("")
	for i, name := range []string{"first", "second", "third"} {
		pair := authority.Issue(name, nil)
		status := s.ask(http.MethodPut, s.admins[i%2]+path, map[string]string{
			"certificate": pair.Chain,
			"privateKey":  pair.Key,
		}, nil)
		if want := []int{http.StatusCreated, http.StatusOK, http.StatusOK}[i]; status != want {
			s.Errorf("set %s: %d, want %d", name, status, want)
		}
		both(name)
	}
	s.servers[1].kill()
	if status := s.ask(http.MethodDelete, s.admins[0]+path, nil, nil); status != http.StatusOK {
		s.Errorf("remove: %d", status)
	}
	s.servers[1].start()
	s.eventually("the other server did not come up", func() bool { return s.ready(1) })
	both("")
	var keys int
	s.eventually("the keys of certificates that ended are gone", func() bool {
		err := s.pool.QueryRow(s.Context(), `SELECT count(*) FROM carillon.data_keys k
			JOIN client_certificates.certificates c USING (id)`).Scan(&keys)
		return err == nil && keys == 0
	})
}
