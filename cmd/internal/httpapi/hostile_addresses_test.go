package httpapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
	"carillon/projections/destinations"
)

// TestHostileAddressesByScope: callers without access to secrets see an unusable part of an address, and can't send
// that back. The same address of two destinations, or two organizations, can't be recognized by its shown part.
func TestHostileAddressesByScope(t *testing.T) {
	s := serve(t)
	const url, moved = "https://127.0.0.1:1/services/T0/topsecret", "https://127.0.0.1:1/services/T0/other?key=topsecret"
	reader, _ := s.scoped(t, "read")
	writer, _ := s.scoped(t, "read", "write")
	_, theirs := s.Organization(t, "Another organization")
	body := func(url string) string { return `{"name":"CRM","config":{"url":"` + url + `"}}` }
	send := func(method, ref, key, body string, status int) (d destinationView) {
		t.Helper()
		s.as(key).sends(t, method, destinationsPath+"/"+ref, body).into(t, status, &d)
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
	s.as(reader).get(t, destinationsPath).into(t, 200, &listed)
	if len(listed.Items) != 2 || listed.Items[0].Config.URL != masked {
		t.Errorf("listed %+v", listed)
	}
	for _, method := range []string{"PUT", "PATCH"} {
		s.as(writer).sends(t, method, destinationsPath+"/one", body(masked)).refused(t, 400, "VALIDATION_FAILED",
			"config.url is masked")
	}
	if got := send("PATCH", "one", writer, `{"name":"Renamed"}`, 200); got.Config.URL != masked || got.Name != "Renamed" {
		t.Errorf("renamed %+v", got)
	}
	if got := send("PATCH", "one", writer, `{"config":{"url":"`+url+`"}}`, 200).Config.URL; got != masked {
		t.Errorf("the same address again is %s, was %s", got, masked)
	}
	if got := send("PATCH", "one", writer, `{"config":{"url":"`+moved+`"}}`, 200).Config.URL; got == masked ||
		!strings.HasPrefix(got, prefix) {
		t.Errorf("another one is %s, the one before was %s", got, masked)
	}
	if got := send("GET", "one", "", "", 200).Config.URL; got != moved {
		t.Errorf("the owner is shown %s", got)
	}
	if strings.Contains(s.logged(t), "topsecret") {
		t.Error("the log shows an address")
	}
}

// TestHostileSealedValueInAnotherField moves the sealed headers of a destination, in Postgres, to its address and to
// its secret, which other callers see and other hosts get.
func TestHostileSealedValueInAnotherField(t *testing.T) {
	s := serve(t)
	const body = `{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook","headers":{"Authorization":"topsecret"}}}`
	created := s.put(t, destinationsPath+"/crm", body)
	created.into(t, http.StatusCreated, &destinationView{})
	for _, moved := range []string{
		"UPDATE destinations.destinations SET address = headers WHERE organization = $1",
		"UPDATE destinations.secrets SET sealed = d.headers FROM destinations.destinations d WHERE d.id = destination " +
			"AND d.organization = $1",
	} {
		must.Get(s.Pool.Exec(t.Context(), moved, s.org))(t)
	}
	read := into[destinationView](t, http.StatusOK, s.get(t, destinationsPath+"/crm"))
	if read.Config.URL != "unavailable" || len(read.Secrets) != 1 || read.Secrets[0].Secret != "unavailable" {
		t.Errorf("opened in another field: %+v", read)
	}
	if read.Config.Headers["Authorization"] != "topsecret" {
		t.Errorf("headers are %v: the test shows nothing", read.Config.Headers)
	}
	s.post(t, destinationsPath+"/crm/test", "").refused(t, http.StatusConflict, "CONFLICT", "")
}

// TestDestinationWithLostKey is there for its owner. Nothing can be set that would have to be sealed before its secret
// is rotated, and an address that an earlier version left open is not written in the open again.
func TestDestinationWithLostKey(t *testing.T) {
	s := serve(t)
	sealed := s.destination(t, "sealed").ID
	must.OK(t, s.Commands.Vault.Shred(t.Context(), uuid.MustParse(sealed)))
	exposed := uuid.New()
	position := must.Get(s.Store.Append(t.Context(), destination.Aggregate.Stream(exposed), eventstore.NoStream,
		[]eventstore.Proposed{{
			ID: uuid.New(), Type: "destination.created.v1", Data: fmt.Appendf(nil,
				`{"organization":%q,"externalId":"exposed","name":"Old","url":"https://127.0.0.1:1/hook/topsecret","headers":{},`+
					`"debounceWindowSeconds":0,"at":"2026-01-02T03:04:05Z"}`, s.org),
		}}))(t)
	s.Await(t, position.Position, destinations.ReadModel.Name)
	const moved = `"config":{"url":"https://127.0.0.1:1/hook/other"}`
	for ref, recorded := range map[string][]string{
		sealed: {"destination.created.v2", "destination.secret-minted.v1"}, exposed.String(): {"destination.created.v1"},
	} {
		send := func(method, ref, body string) response {
			return s.do(t, request{method: method, path: destinationsPath + "/" + ref, body: body})
		}
		for _, body := range []string{`{` + moved + `}`, `{"config":{"headers":{"X-A":"1"}}}`,
			`{"name":"Moved",` + moved + `}`} {
			send("PATCH", ref, body).refused(t, http.StatusConflict, "CONFLICT", "rotate its secret")
		}
		send("PUT", ref, `{"name":"Moved",`+moved+`}`).refused(t, http.StatusConflict, "CONFLICT", "rotate its secret")
		if ref == sealed {
			send("PUT", "sealed", `{"name":"Moved",`+moved+`}`).refused(t, http.StatusConflict, "CONFLICT", "rotate its secret")
		} else {
			send("PATCH", ref, `{"name":"Moved"}`).refused(t, http.StatusConflict, "CONFLICT", "rotate its secret")
		}
		stream := "destination-" + ref
		s.wrote(t, stream, recorded...)
		send("PATCH", ref, `{"status":"disabled"}`).into(t, http.StatusOK, &destinationView{})
		s.post(t, destinationsPath+"/"+ref+"/secrets/rotate", "").into(t, http.StatusOK,
			&struct{}{})
		changed := into[destinationView](t, http.StatusOK, send("PATCH", ref,
			`{"name":"Moved","config":{"url":"https://127.0.0.1:1/hook/other","headers":{"X-A":"1"}}}`))
		if changed.Config.URL != "https://127.0.0.1:1/hook/other" || changed.Name != "Moved" || changed.Status != "disabled" {
			t.Errorf("after the rotation %+v", changed)
		}
	}
}
