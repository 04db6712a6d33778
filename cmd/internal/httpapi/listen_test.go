package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var (
	streamAddress = "https://listen.invalid/stream/" + strings.Repeat("aB3", 12)
	toStream      = `{"name":"x","config":{"url":"` + streamAddress + `"}}`
)

func TestListenRefusals(t *testing.T) {
	s := serve(t)
	for name, url := range map[string]string{
		"sent":   "https://127.0.0.1:1/",
		"stream": streamAddress,
		"short":  "https://listen.invalid/stream/x",
	} {
		body := `{"name":"x","config":{"url":"` + url + `"}}`
		s.put(t, destinationsPath+"/"+name, body).into(t, 201, nil)
	}
	for _, tt := range []struct {
		in            request
		status        int
		code, message string
	}{
		{request{method: "GET", path: "/sent/listen"}, 409, "CONFLICT", "https://listen.invalid/stream/ and 32"},
		{request{method: "GET", path: "/short/listen"}, 409, "CONFLICT", "32 or more random"},
		{request{method: "GET", path: "/unknown/listen"}, 404, "NOT_FOUND", ""},
		{request{method: "GET", path: "/stream/listen?x=1"}, 400, "INVALID_QUERY", ""},
		{request{method: "POST", path: "/sent/listen/" + missing, body: `{"status":204}`}, 409, "CONFLICT", ""},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{"status":204}`}, 404, "NOT_FOUND",
			"no webhook waits"},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{"status":99}`}, 400, "INVALID_BODY", "status"},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{}`}, 400, "INVALID_BODY", "status"},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{"status":200,"headerLines":["x"]}`}, 400,
			"INVALID_BODY", "headerLines[0]"},
		{request{method: "POST", path: "/stream/listen/" + missing, body: `{"status":200,"bodyBase64":"?"}`}, 400,
			"INVALID_BODY", "bodyBase64"},
		{request{method: "POST", path: "/stream/listen/7", body: `{"status":204}`}, 400, "INVALID_PARAMS", "id"},
	} {
		tt.in.path = destinationsPath + tt.in.path
		s.do(t, tt.in).refused(t, tt.status, tt.code, tt.message)
	}
	_, other := s.Organization(t, "Library")
	s.as(other).get(t, destinationsPath+"/stream/listen").refused(t, 404, "NOT_FOUND", "")
}

// TestListenEndsWithItsKey revokes the key of a stream that is open.
func TestListenEndsWithItsKey(t *testing.T) {
	s := serve(t)
	s.put(t, destinationsPath+"/stream", toStream).into(t, 201, nil)
	open := s.listen(t, "stream", s.key)
	s.revoke(t, s.key)
	_, data := open.next("webhook")
	assert.True(t, data == "", "after the end of its key: %s", data)
}

// TestListenShowsItsDestination: a stream to which nothing comes any more says so, and ends if that is permanent.
func TestListenShowsItsDestination(t *testing.T) {
	s := serve(t)
	made := into[destinationView](t, 201, s.put(t, destinationsPath+"/stream", toStream))
	one := s.listen(t, "stream", s.key)
	said := func(open listening, want string) {
		t.Helper()
		_, got := open.next("destination")
		assert.True(t, got == want, "the stream says %s, want %s", got, want)
	}
	patch := func(body string) {
		s.patch(t, destinationsPath+"/"+made.ID, body).into(t, 200, &made)
	}
	patch(`{"status":"disabled"}`)
	said(one, `{"status":"disabled","statusReason":null}`)
	patch(`{"status":"enabled"}`)
	said(one, `{"status":"enabled","statusReason":null}`)
	state := must.Get(destination.Aggregate.Load(t.Context(), s.Store, uuid.MustParse(made.ID)))(t)
	failed := destination.AutoDisable{Switches: state.State.Switches, Reason: "3 failures", At: time.Now()}
	must.Get(destination.Aggregate.Execute(t.Context(), s.Store, uuid.MustParse(made.ID), failed,
		destination.Options{}))(t)
	said(one, `{"status":"auto_disabled","statusReason":"3 failures"}`)
	other := s.listen(t, "stream", s.key)
	said(other, `{"status":"auto_disabled","statusReason":"3 failures"}`)
	patch(`{"config":{"url":"` + streamAddress + `2"}}`)
	said(one, `{"status":"moved","statusReason":null}`)
	one.lines.Scan() // the empty line of the last event
	if one.lines.Scan() {
		t.Errorf("after the end: %s", one.lines.Text())
	}
	third := s.listen(t, "stream", s.key)
	s.delete(t, destinationsPath+"/stream").into(t, 200, nil)
	s.put(t, destinationsPath+"/stream", toStream).into(t, 201, nil) // another one
	said(third, `{"status":"auto_disabled","statusReason":"3 failures"}`)
	said(third, `{"status":"deleted","statusReason":null}`)
}

// TestListenBoundsStreams opens as many streams as an organization may have. The next is refused, until one is closed.
func TestListenBoundsStreams(t *testing.T) {
	s := serve(t)
	_, other := s.Organization(t, "Library")
	const maxStreams = 16
	s.put(t, destinationsPath+"/stream", toStream).into(t, 201, nil)
	refusals := 0
	s.Relay.Refused = func(organization.Limit) { refusals++ }
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	open := func() *http.Response { return stream(t, server, "stream", s.key) }
	var last *http.Response
	for range maxStreams {
		if last = open(); last.StatusCode != http.StatusOK {
			t.Fatalf("refused with %d", last.StatusCode)
		}
	}
	listen := request{path: destinationsPath + "/stream/listen"}
	got := s.do(t, listen)
	got.refused(t, 429, "RATE_LIMITED", "limit streams: 16 streams of your organization are open: close one")
	got.comesAgainWithin(t, time.Hour)
	assert.Equal(t, refusals, 1, "refusals counted")
	s.as(other).do(t, listen).refused(t, 404, "NOT_FOUND", "") // and is not held back
	_ = last.Body.Close()
	must.Eventually(t, "a stream is free", func() bool {
		return open().StatusCode == http.StatusOK //nolint:bodyclose // by a cleanup
	})
}
