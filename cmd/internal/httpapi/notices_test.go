package httpapi_test

import (
	"testing"
)

// The address for notices is a destination with a name of its own, which PUT, GET and DELETE reach by their path.
func TestNoticesAddress(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const path = "/events/notices"
	s.do(t, request{path: path}).refused(t, 404, "NOT_FOUND", "destination not found")
	var made, again, read, named destinationView
	s.do(t, request{method: "PUT", path: path, body: destinationBody(t, "")}).into(t, 201, &made)
	if made.ExternalID == nil || *made.ExternalID != "carillon.notices" || len(made.Secrets) != 1 {
		t.Fatalf("made %+v", made)
	}
	s.do(t, request{method: "PUT", path: path, body: destinationBody(t, "")}).into(t, 200, &again)
	s.do(t, request{path: path}).into(t, 200, &read)
	s.do(t, request{path: destinationsPath + "/carillon.notices"}).into(t, 200, &named)
	if again.ID != made.ID || read.ID != made.ID || named.ID != made.ID {
		t.Errorf("ids %s, %s, %s and %s, want one", made.ID, again.ID, read.ID, named.ID)
	}
	s.do(t, request{
		method: "POST",
		path:   destinationsPath + "/carillon.notices/subscriptions",
		body:   `{"eventTypes":["delivery.exhausted"],"scopeKind":"all"}`,
	}).refused(t, 400, "VALIDATION_FAILED", "PUT /events/notices")
	s.do(t, request{method: "DELETE", path: path}).into(t, 200, nil)
	s.do(t, request{path: path}).refused(t, 404, "NOT_FOUND", "destination not found")
}
