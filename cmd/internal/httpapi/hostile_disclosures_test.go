package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/disclosure"
	"carillon/eventstore"
)

// disclosed lists the recorded disclosures of a destination: caller and part, "key:ab12CD34 secrets".
func (s *server) disclosed(t *testing.T, id string) (shown []string) {
	t.Helper()
	stream := disclosure.Aggregate.Stream(disclosure.StreamID(uuid.MustParse(id), time.Now()))
	for recorded, err := range s.Store.Read(t.Context(), stream, 0) {
		if err != nil {
			t.Fatal(err)
		}
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
		if got := s.disclosed(t, id); !slices.Equal(got, entries) {
			t.Errorf("on record is %v, want %v", got, entries)
		}
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
	if _, seen := open.next("webhook"); seen != "" {
		t.Errorf("GET …/listen: %s", seen)
	}
	for _, path := range []string{"", "/" + made.ID, "/" + made.ID + "/secrets"} {
		got := s.get(t, destinationsPath+path)
		if got.status < 500 || strings.Contains(got.body, "topsecret") || strings.Contains(got.body, "whsec_") {
			t.Errorf("GET %s: %d %s", path, got.status, got.body)
		}
	}
	s.as(writer).get(t, destinationsPath+"/"+made.ID).into(t, 200, &made) // with masks
}
