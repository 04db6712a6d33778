package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/disclosure"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
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
	assert.Equal(t, send("GET", "one", "", "", 200).Config.URL, url, "the owner is shown")
	const prefix = "https://127.0.0.1:1/services/…"
	masked := send("GET", "one", reader, "", 200).Config.URL
	assert.True(t, strings.HasPrefix(masked, prefix) && len(masked) == len(prefix)+12, "without secrets it is %s", masked)
	two := send("GET", "two", reader, "", 200).Config.URL
	assert.True(t, two != masked && strings.HasPrefix(two, prefix), "one is %s and two is %s", masked, two)
	listed := into[page[destinationView]](t, 200, s.as(reader).get(t, destinationsPath))
	assert.True(t, len(listed.Items) == 2 && listed.Items[0].Config.URL == masked, "listed %+v", listed)
	for _, method := range []string{"PUT", "PATCH"} {
		s.as(writer).sends(t, method, destinationsPath+"/one", body(masked)).refused(t, 400, "VALIDATION_FAILED",
			"config.url is masked")
	}
	if got := send("PATCH", "one", writer, `{"name":"Renamed"}`, 200); got.Config.URL != masked || got.Name != "Renamed" {
		t.Errorf("renamed %+v", got)
	}
	assert.Equal(t, send("PATCH", "one", writer, `{"config":{"url":"`+url+`"}}`, 200).Config.URL, masked,
		"the same address again … was")
	if got := send("PATCH", "one", writer, `{"config":{"url":"`+moved+`"}}`, 200).Config.URL; got == masked ||
		!strings.HasPrefix(got, prefix) {
		t.Errorf("another one is %s, the one before was %s", got, masked)
	}
	assert.Equal(t, send("GET", "one", "", "", 200).Config.URL, moved, "the owner is shown")
	assert.True(t, !strings.Contains(s.logged(t), "topsecret"), "the log shows an address")
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
		s.exec(t, moved, s.org)
	}
	read := into[destinationView](t, http.StatusOK, s.get(t, destinationsPath+"/crm"))
	assert.True(t, read.Config.URL == "unavailable" && len(read.Secrets) == 1 && read.Secrets[0].Secret == "unavailable",
		"opened in another field: %+v", read)
	assert.Equal(t, read.Config.Headers["Authorization"], "topsecret",
		"headers are %v: the test shows nothing", read.Config.Headers)
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
			return s.sends(t, method, destinationsPath+"/"+ref, body)
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
		s.post(t, destinationsPath+"/"+ref+"/secrets/rotate", "").into(t, http.StatusOK, &struct{}{})
		changed := into[destinationView](t, http.StatusOK, send("PATCH", ref,
			`{"name":"Moved","config":{"url":"https://127.0.0.1:1/hook/other","headers":{"X-A":"1"}}}`))
		assert.True(t, changed.Config.URL == "https://127.0.0.1:1/hook/other" && changed.Name == "Moved" &&
			changed.Status == "disabled", "after the rotation %+v", changed)
	}
}

// disclosed lists the recorded disclosures of a destination: caller and part, "key:ab12CD34 secrets".
func (s *server) disclosed(t *testing.T, id string) (shown []string) {
	t.Helper()
	stream := disclosure.Aggregate.Stream(disclosure.StreamID(uuid.MustParse(id), time.Now()))
	for recorded, err := range s.Store.Read(t.Context(), stream, 0) {
		must.OK(t, err)
		var e disclosure.Shown
		if err := json.Unmarshal(recorded.Data, &e); err != nil || e.Destination.String() != id {
			t.Fatal(string(recorded.Data), err)
		}
		for _, what := range e.What {
			shown = append(shown, e.To+" "+string(what))
		}
	}
	slices.Sort(shown)
	return shown
}

// TestHostileReadingInFullIsOnRecord: reading secrets leaves a name and a time, and repeated reads fill no disk.
// Reading masks alone leaves nothing.
func TestHostileReadingInFullIsOnRecord(t *testing.T) {
	s := serve(t)
	const url = "https://127.0.0.1:1/services/T0/topsecret"
	body := func(name string) string {
		return fmt.Sprintf(`{"name":%q,"externalId":%q,"config":{"url":%q,"headers":{"X-Token":"hunter2"}}}`, name, name, url)
	}
	writer, _ := s.scoped(t, "write", "read")
	reader, readerID := s.scoped(t, "read", "secrets")
	full, fullID := s.scoped(t, "read", "write", "secrets")
	var one, two, open destinationView
	for name, into := range map[string]*destinationView{"one": &one, "two": &two} {
		s.as(writer).post(t, destinationsPath, body(name)).into(t, 201, into)
	}
	s.as(writer).post(t, destinationsPath, `{"name":"open","config":{"url":"https://127.0.0.1:1/hook"}}`).into(t, 201,
		&open)
	get := func(key, path string) {
		s.as(key).get(t, destinationsPath+path).into(t, 200, &struct{}{})
	}
	get(writer, "")
	get(writer, "/one")
	for _, id := range []string{one.ID, two.ID, open.ID} {
		if got := s.disclosed(t, id); got != nil {
			t.Errorf("masks are on record: %v", got)
		}
	}

	want := func(id string, entries ...string) {
		t.Helper()
		slices.Sort(entries)
		assert.Slices(t, s.disclosed(t, id), entries, "on record")
	}
	by := func(id, what string) string { return "key:" + id + " " + what }
	for range 20 {
		get(reader, "/one")
	}
	want(one.ID, by(readerID, "address"), by(readerID, "headers"))
	for range 20 {
		get(reader, "/one/secrets")
		get(reader, "") // the list
	}
	want(one.ID, by(readerID, "address"), by(readerID, "headers"), by(readerID, "secrets"))
	want(two.ID, by(readerID, "address"), by(readerID, "headers"))
	want(open.ID) // an address without secrets discloses nothing
	for _, call := range []request{
		{method: "PATCH", path: destinationsPath + "/two", body: `{"name":"Renamed"}`},
		{method: "PUT", path: destinationsPath + "/two", body: strings.Replace(body("two"), `"externalId":"two",`, "", 1)},
		{method: "POST", path: destinationsPath + "/two/secrets/rotate"},
	} {
		call.key = full
		s.do(t, call).into(t, 200, &struct{}{})
	}
	want(two.ID, by(readerID, "address"), by(readerID, "headers"), by(fullID, "address"), by(fullID, "headers"),
		by(fullID, "secrets"))
}

// unrecorded is an event store that takes no disclosures.
type unrecorded struct{ eventstore.Store }

func (u unrecorded) Append(
	ctx context.Context, stream string, at eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if strings.HasPrefix(stream, disclosure.Aggregate.Category+"-") {
		return eventstore.Appended{}, errors.New("no room")
	}
	return u.Store.Append(ctx, stream, at, events)
}

// TestHostileNothingIsShownOffTheRecord: if it can't be recorded that something is shown, it is not shown.
func TestHostileNothingIsShownOffTheRecord(t *testing.T) {
	s := serve(t)
	writer, _ := s.scoped(t, "write", "read")
	var made destinationView
	const body = `{"name":"CRM","config":{"url":"https://127.0.0.1:1/services/topsecret"}}`
	s.as(writer).post(t, destinationsPath, body).into(t, 201, &made)
	s.as(writer).put(t, destinationsPath+"/stream",
		`{"name":"x","config":{"url":"`+streamAddress+`","headers":{"X-Token":"topsecret"}}}`).into(t, 201, &made)
	s.Commands.Store = unrecorded{s.Commands.Store}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	open := s.listen(t, "stream", s.key)
	test := request{method: "POST", path: destinationsPath + "/stream/test", body: `{}`}
	test.ctx = ctx
	go s.do(t, test)
	_, seen := open.next("webhook")
	assert.True(t, seen == "", "GET …/listen: %s", seen)
	for _, path := range []string{"", "/" + made.ID, "/" + made.ID + "/secrets"} {
		got := s.get(t, destinationsPath+path)
		assert.True(t, got.status >= 500 && !strings.Contains(got.body, "topsecret") && !strings.Contains(got.body, "whsec_"),
			"GET %s: %d %s", path, got.status, got.body)
	}
	s.as(writer).get(t, destinationsPath+"/"+made.ID).into(t, 200, &made) // with masks
}
