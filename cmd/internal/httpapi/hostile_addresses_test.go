package httpapi_test

import (
	"net/http"
	"strings"
	"testing"
)

// TestHostileAddressesByScope: who may not read secrets sees of an address what can't be used, and can't send that back.
// The same address of two destinations, or two organizations, can't be told by what is shown of it.
func TestHostileAddressesByScope(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const url, moved = "https://127.0.0.1:1/services/T0/topsecret", "https://127.0.0.1:1/services/T0/other?key=topsecret"
	reader, _ := s.scoped(t, "read")
	writer, _ := s.scoped(t, "read", "write")
	_, theirs := s.Organization(t, "Somebody else")
	body := func(url string) string { return `{"name":"CRM","config":{"url":"` + url + `"}}` }
	send := func(method, ref, key, body string, status int) (d destinationView) {
		t.Helper()
		s.do(t, request{method: method, path: destinationsPath + "/" + ref, key: key, body: body}).into(t, status, &d)
		return d
	}
	send("PUT", "one", "", body(url), 201)
	send("PUT", "two", "", body(url), 201)
	send("PUT", "one", theirs, body(url), 201)
	if got := send("GET", "one", "", "", 200).Config.URL; got != url {
		t.Errorf("the owner is shown %s", got)
	}
	const prefix = "https://127.0.0.1:1/services/…"
	masked := send("GET", "one", reader, "", 200).Config.URL
	if !strings.HasPrefix(masked, prefix) || len(masked) != len(prefix)+12 {
		t.Errorf("without secrets it is %s", masked)
	}
	if two := send("GET", "two", reader, "", 200).Config.URL; two == masked || !strings.HasPrefix(two, prefix) {
		t.Errorf("one is %s and two is %s", masked, two)
	}
	var listed struct {
		Items []destinationView `json:"items"`
	}
	s.do(t, request{method: "GET", path: destinationsPath, key: reader}).into(t, 200, &listed)
	if len(listed.Items) != 2 || listed.Items[0].Config.URL != masked {
		t.Errorf("listed %+v", listed)
	}
	for _, method := range []string{"PUT", "PATCH"} {
		s.do(t, request{method: method, path: destinationsPath + "/one", key: writer, body: body(masked)}).refused(t, http.StatusBadRequest, "VALIDATION_FAILED", "config.url is masked")
	}
	if got := send("PATCH", "one", writer, `{"name":"Renamed"}`, 200); got.Config.URL != masked || got.Name != "Renamed" {
		t.Errorf("renamed %+v", got)
	}
	if got := send("PATCH", "one", writer, `{"config":{"url":"`+url+`"}}`, 200).Config.URL; got != masked {
		t.Errorf("the same address again is %s, was %s", got, masked)
	}
	if got := send("PATCH", "one", writer, `{"config":{"url":"`+moved+`"}}`, 200).Config.URL; got == masked || !strings.HasPrefix(got, prefix) {
		t.Errorf("another one is %s, the one before was %s", got, masked)
	}
	if got := send("GET", "one", "", "", 200).Config.URL; got != moved {
		t.Errorf("the owner is shown %s", got)
	}
	if strings.Contains(s.Logged.String(), "topsecret") {
		t.Error("the log shows an address")
	}
}
