package httpapi_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
)

// Every event of a write has the reason that the request gives.
func TestReasonOfWrite(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var created destinationView
	because := map[string]string{wire.ReasonHeader: " Umzug nach Zürich, ticket 7 "}
	s.do(t, request{
		method: "POST",
		path:   "/events/destinations",
		body:   destinationBody(t, ""),
		header: because,
	}).into(t, 201, &created)
	count := 0
	stream := destination.Aggregate.Stream(uuid.MustParse(created.ID))
	for recorded, err := range s.Store.Read(t.Context(), stream, 0) {
		if err != nil {
			t.Fatal(err)
		}
		meta, err := eventstore.ParseMetadata(recorded.Metadata)
		if err != nil || meta.Reason != "Umzug nach Zürich, ticket 7" {
			t.Errorf("%s has the reason %q (%v)", recorded.Type, meta.Reason, err)
		}
		count++
	}
	if count != 2 {
		t.Errorf("%d events", count)
	}
	for reason, want := range map[string]string{
		"two\tcolumns":           "X-Carillon-Reason must be plain text in one line: leave out tabs",
		strings.Repeat("ö", 501): "X-Carillon-Reason must have at most 500 characters",
	} {
		s.do(t, request{
			method: "DELETE",
			path:   "/events/destinations/" + created.ID,
			header: map[string]string{wire.ReasonHeader: reason},
		}).refused(t, 400, "INVALID_BODY", want)
	}
	twice := s.request(t, request{method: "DELETE", path: "/events/destinations/" + created.ID}, nil)
	twice.Header[wire.ReasonHeader] = []string{"one", "two"}
	for sent, want := range map[string]string{"Umzug nach Z\xfcrich": "Umzug nach Zürich", "Zürich ✓": "Zürich ✓"} {
		old := s.request(t, request{method: "DELETE", path: "/events/destinations/" + created.ID}, nil)
		old.Header[wire.ReasonHeader] = []string{sent}
		if got, err := wire.ReasonOf(old); got != want || err != nil {
			t.Errorf("%q is read as %q, %v", sent, got, err)
		}
	}
	if _, err := wire.ReasonOf(twice); err == nil || !strings.Contains(err.Error(), "must be sent once") {
		t.Errorf("two reasons: %v", err)
	}
}
