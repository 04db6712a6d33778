package adminapi_test

import (
	"crypto/rand"
	"net/url"
	"strings"
	"testing"

	"carillon/cmd/internal/adminapi"
)

func TestAnalystLogins(t *testing.T) {
	t.Parallel()
	s := serve(t)
	name := "ana_" + strings.ToLower(rand.Text())
	var login adminapi.NewAnalystLogin
	s.do(t, "POST", "/admin/analytics/logins", `{"name":"`+name+`"}`).into(t, 201, &login)
	address, err := url.Parse(login.Connection)
	if err != nil || address.User.Username() != name {
		t.Fatalf("connection of %v, %v", address.User.Username(), err)
	}
	if password, _ := address.User.Password(); len(password) < 20 || strings.Contains(s.Logged.String(), password) {
		t.Error("no password, or one that is in the log")
	}
	create := func(body string) response { return s.do(t, "POST", "/admin/analytics/logins", body) }
	create(`{"name":"`+name+`"}`).refused(t, 409, "CONFLICT", "has this name already")
	for _, bad := range []string{"Ana", "public", "none", "pg_ana"} {
		create(`{"name":"`+bad+`"}`).refused(t, 400, "INVALID_BODY", "name must be 1 to 63 lowercase")
	}
	create(`{}`).refused(t, 400, "INVALID_BODY", "name")
	var list adminapi.List[adminapi.AnalystLogin]
	s.do(t, "GET", "/admin/analytics/logins", "").into(t, 200, &list)
	found := false
	for _, l := range list.Items {
		found = found || l.Name == name
	}
	if !found {
		t.Errorf("%s is not in %v", name, list.Items)
	}
	s.do(t, "DELETE", "/admin/analytics/logins/"+name, "").into(t, 200, nil)
	s.do(t, "DELETE", "/admin/analytics/logins/"+name, "").refused(t, 404, "NOT_FOUND", "no analyst")
}
