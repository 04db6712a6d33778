package httpapi_test

import (
	"bufio"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
)

// stream is an open GET …/listen of a destination.
type stream struct {
	lines *bufio.Scanner
	body  io.ReadCloser
}

// listen opens a stream, and returns when the server knows of it.
func (s *server) listen(t *testing.T, destination, key string) stream {
	t.Helper()
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	url := server.URL + destinationsPath + "/" + destination + "/listen"
	in, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	in.Header.Set("Authorization", "Bearer "+key)
	got, err := server.Client().Do(in)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = got.Body.Close() })
	lines := bufio.NewScanner(got.Body)
	if !lines.Scan() || lines.Text() != ": still here" || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d: %q, %v", got.StatusCode, lines.Text(), got.Header)
	}
	return stream{lines, got.Body}
}

// next returns the next server-sent event of a name, and "" when the stream has ended.
func (s stream) next(name string) (id, data string) {
	event := ""
	for s.lines.Scan() {
		field, value, _ := strings.Cut(s.lines.Text(), ": ")
		switch {
		case field == "event":
			event = value
		case event == name && field == "id":
			id = value
		case event == name && field == "data":
			return id, value
		}
	}
	return "", ""
}

// TestHostileNoRequestShowsSecrets: whatever a key without the scope secrets asks for, receives or gets back from a
// receiver, it has no sealed value: no header, no part of the address, no signing secret.
func TestHostileNoRequestShowsSecrets(t *testing.T) {
	t.Parallel()
	s := serve(t)
	weak, _ := s.scoped(t, "read", "write")
	strong, strongID := s.scoped(t, "read", "write", "secrets")
	const path, header, signing = destinationsPath + "/crm", "hunter2hunter2", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var made destinationView
	post := func(key, path, body string) response {
		return s.do(t, request{
			method: "POST",
			path:   path,
			key:    key,
			body:   body,
		})
	}
	post(weak, destinationsPath, `{"name":"CRM","externalId":"crm","secret":"`+signing+`","config":{"url":"`+
		streamAddress+`","headers":{"X-Token":"`+header+`","Accept":"`+header+`"}}}`).into(t, 201, &made)
	// A test of a key is taken by another one's stream, whose program answers with the whole request.
	taken := func(listener, tester string) (seen, answer string) {
		open := s.listen(t, "crm", listener)
		defer func() { _ = open.body.Close() }()
		tested := make(chan string, 1)
		go func() { tested <- post(tester, path+"/test", `{}`).body }()
		id, seen := open.next("webhook")
		back, err := json.Marshal(map[string]any{"status": 500, "body": seen + signing, "headers": map[string]string{
			"x-echo": seen,
		}})
		if err != nil {
			t.Fatal(err)
		}
		post(listener, path+"/listen/"+id, string(back))
		return seen, <-tested
	}
	weakSeen, answer := taken(weak, weak)
	shown := map[string]string{"the stream": weakSeen, "the answer to a test": answer}
	if got := s.disclosed(t, made.ID); got != nil {
		t.Errorf("masks are on record: %v", got)
	}
	strongSeen, answer := taken(strong, weak)
	shown["the answer to a test, of one who knows"] = answer
	if !strings.Contains(strongSeen, `"x-token":"`+header) || !strings.Contains(weakSeen, `"x-token":"…"`) ||
		!strings.Contains(weakSeen, `"user-agent":"Carillon/test"`) {
		t.Errorf("with the scope %s\nwithout %s", strongSeen, weakSeen)
	}
	if got := s.disclosed(t, made.ID); !slices.Equal(got, []string{"key:" + strongID + " headers"}) {
		t.Errorf("on record: %v", got)
	}
	order := []string{"GET", "POST", "PATCH", "PUT", "DELETE"} // what removes comes last
	for _, in := range slices.SortedStableFunc(slices.Values(slices.Concat(surface, feedSurface)), func(a, b request) int {
		return slices.Index(order, a.method) - slices.Index(order, b.method)
	}) {
		if strings.HasSuffix(in.path, "/listen") || strings.HasSuffix(in.path, "/test") {
			continue // above
		}
		in.path, in.key = strings.Replace(in.path, "{ref}", "crm", 1), weak
		in = filled(in)
		shown[in.method+" "+in.path] = s.do(t, in).body
	}
	for where, text := range shown {
		for _, secret := range []string{header, strings.TrimPrefix(streamAddress, "https://listen.invalid/"), signing[6:]} {
			if strings.Contains(text, secret) {
				t.Errorf("%s shows %s: %s", where, secret, text)
			}
		}
	}
	if logged := s.logged(t); strings.Contains(logged, header) || strings.Contains(logged, signing[6:]) {
		t.Error("the log shows a secret")
	}
}
