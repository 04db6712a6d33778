package httpapi_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/front"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Requests that net/http would refuse in a line of text are answered like others: without a key, with 401.
func TestHostileRequestsHaveTheEnvelope(t *testing.T) {
	s := serve(t)
	var lc net.ListenConfig
	listener := must.Get(lc.Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- front.Serve(ctx, listener, s.api, s.api.TooLarge(), nil, s.Log) }()
	t.Cleanup(func() {
		stop()
		must.OK(t, <-ended)
	})
	large := "X-Large: " + strings.Repeat("x", 128<<10) + "\r\n"
	many := strings.Repeat("X-Small: "+strings.Repeat("x", 1000)+"\r\n", 128)
	for _, test := range []struct {
		name, target, header string
		status               int
		code                 string
	}{
		{"a stray percent sign", "/events/destinations/%zz", "", 400, "INVALID_PARAMS"},
		{"one at the end", "/feeds/a%", "", 404, "NOT_FOUND"},
		{"a truncated escape", "/events/%2", "", 404, "NOT_FOUND"},
		{"a large header", "/events/destinations", large, 400, "INVALID_PARAMS"},
		{"many headers", "/feeds", many, 400, "BAD_REQUEST"},
		{"a long path", "/events/" + strings.Repeat("x", 128<<10), "", 400, "INVALID_PARAMS"},
		{"a long query", "/feeds?" + strings.Repeat("x", 128<<10), "", 400, "BAD_REQUEST"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			unauthenticated := "AUTHENTICATION_FAILED"
			if strings.HasPrefix(test.target, "/feeds") {
				unauthenticated = "UNAUTHORIZED"
			}
			for _, key := range []string{"", "Authorization: Bearer ck_wrong\r\n", "Authorization: Bearer " + s.key + "\r\n"} {
				status, code := 401, unauthenticated
				if strings.Contains(key, s.key) {
					status, code = test.status, test.code
				}
				for _, header := range []string{test.header + key, key + test.header} {
					sent := "GET " + test.target + " HTTP/1.1\r\nHost: localhost\r\n" + header + "\r\n"
					exchange(t, listener.Addr(), sent).refused(t, status, code, "")
				}
			}
		})
	}
}

// exchange sends a request unchanged.
func exchange(t *testing.T, to net.Addr, sent string) response {
	t.Helper()
	var dialer net.Dialer
	conn := must.Get(dialer.DialContext(t.Context(), "tcp", to.String()))(t)
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	must.Get(io.WriteString(conn, sent))(t)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must.OK(t, err)
	body, err := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	must.OK(t, err)
	return response{status: answer.StatusCode, header: answer.Header, body: string(body)}
}

// listening is an open GET …/listen of a destination.
type listening struct {
	lines *bufio.Scanner
	body  io.ReadCloser
}

// stream asks for a stream.
func stream(t *testing.T, of *httptest.Server, destination, key string) *http.Response {
	t.Helper()
	url := of.URL + destinationsPath + "/" + destination + "/listen"
	in := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	in.Header.Set("Authorization", "Bearer "+key)
	got := must.Get(of.Client().Do(in))(t)
	t.Cleanup(func() { _ = got.Body.Close() })
	return got
}

// listen opens a stream, and returns when the server knows of it.
func (s *server) listen(t *testing.T, destination, key string) listening {
	t.Helper()
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	got := stream(t, server, destination, key) //nolint:bodyclose // stream has it closed at the end of the test
	lines := bufio.NewScanner(got.Body)
	if !lines.Scan() || lines.Text() != ": still here" || got.Header.Get("Content-Type") != "text/event-stream" {
		t.Fatalf("%d: %q, %v", got.StatusCode, lines.Text(), got.Header)
	}
	return listening{lines, got.Body}
}

// next returns the next server-sent event of a name, and "" when the stream has ended.
func (s listening) next(name string) (id, data string) {
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
	s := serve(t)
	weak, _ := s.scoped(t, "read", "write")
	strong, strongID := s.scoped(t, "read", "write", "secrets")
	const path, header, signing = destinationsPath + "/crm", "hunter2hunter2", "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	var made destinationView
	s.as(weak).post(t, destinationsPath, `{"name":"CRM","externalId":"crm","secret":"`+signing+`","config":{"url":"`+
		streamAddress+`","headers":{"X-Token":"`+header+`","Accept":"`+header+`"}}}`).into(t, 201, &made)
	// A test of a key is taken by another one's stream, whose program answers with the whole request.
	taken := func(listener, tester string) (seen, answer string) {
		open := s.listen(t, "crm", listener)
		defer func() { _ = open.body.Close() }()
		tested := make(chan string, 1)
		go func() { tested <- s.as(tester).post(t, path+"/test", `{}`).body }()
		id, seen := open.next("webhook")
		back := must.Get(json.Marshal(map[string]any{"status": 500, "body": seen + signing, "headers": map[string]string{
			"x-echo": seen,
		}}))(t)
		s.as(listener).post(t, path+"/listen/"+id, string(back))
		return seen, <-tested
	}
	weakSeen, answer := taken(weak, weak)
	shown := map[string]string{"the stream": weakSeen, "the answer to a test": answer}
	if got := s.disclosed(t, made.ID); got != nil {
		t.Errorf("masks are on record: %v", got)
	}
	strongSeen, answer := taken(strong, weak)
	shown["the answer to a test, of one who knows"] = answer
	assert.True(t, strings.Contains(strongSeen, `"x-token":"`+header) && strings.Contains(weakSeen, `"x-token":"…"`) &&
		strings.Contains(weakSeen, `"user-agent":"Carillon/test"`), "with the scope %s\nwithout %s", strongSeen, weakSeen)
	assert.Slices(t, s.disclosed(t, made.ID), []string{"key:" + strongID + " headers"}, "on record")
	order := []string{"GET", "POST", "PATCH", "PUT", "DELETE"} // what removes comes last
	for _, in := range slices.SortedStableFunc(slices.Values(surface), func(a, b request) int {
		return slices.Index(order, a.method) - slices.Index(order, b.method)
	}) {
		if strings.HasSuffix(in.path, "/listen") || strings.HasSuffix(in.path, "/test") {
			continue // above
		}
		in = fill(in, "{ref}", "crm")
		in.key = weak
		shown[in.method+" "+in.path] = s.do(t, in).body
	}
	for where, text := range shown {
		for _, secret := range []string{header, strings.TrimPrefix(streamAddress, "https://listen.invalid/"), signing[6:]} {
			assert.True(t, !strings.Contains(text, secret), "%s shows %s: %s", where, secret, text)
		}
	}
	logged := s.logged(t)
	assert.True(t, !strings.Contains(logged, header) && !strings.Contains(logged, signing[6:]), "the log shows a secret")
}

// beginnings has a value for each request that has begun.
type beginnings chan struct{}

// times waits until n requests have begun.
func (b beginnings) times(t *testing.T, n int) {
	t.Helper()
	for range n {
		select {
		case <-b:
		case <-time.After(apitest.Patience):
			t.Fatal("not all requests have begun")
		}
	}
}

// held is a caller that reads an answer on request.
type held struct {
	*httptest.ResponseRecorder

	began   chan<- struct{}
	release <-chan struct{}
	once    sync.Once
}

func (h *held) Write(body []byte) (int, error) {
	h.once.Do(func() { h.began <- struct{}{}; <-h.release })
	return h.ResponseRecorder.Write(body)
}

// Callers that don't read hold up their own organization, and no other; and that one goes on when they are gone.
func TestHostileReadersHoldUpThemselves(t *testing.T) {
	const inProgress = 64
	s := serve(t)
	_, other := s.Organization(t, "Another organization")
	began, release := make(beginnings), make(chan struct{})
	var asking sync.WaitGroup
	for range inProgress {
		asking.Go(func() {
			s.api.ServeHTTP(&held{ResponseRecorder: httptest.NewRecorder(), began: began, release: release},
				s.request(t, request{path: feedsPath}, http.NoBody))
		})
	}
	began.times(t, inProgress)
	s.as(other).get(t, "/feeds/events").into(t, 200, new([]any))
	got := s.get(t, "/feeds/events")
	got.refused(t, 429, "RATE_LIMITED", "limit requestsUnderWay: 64")
	assert.True(t, got.header.Get("Retry-After") != "", "no Retry-After")
	close(release)
	asking.Wait()
	s.get(t, "/feeds/events").into(t, 200, new([]any))
}

// slow is a body that is sent on request.
type slow struct {
	io.Reader

	began   chan<- struct{}
	release <-chan struct{}
	once    sync.Once
}

func (s *slow) Read(p []byte) (int, error) {
	s.once.Do(func() { s.began <- struct{}{}; <-s.release })
	return s.Reader.Read(p)
}

// Slow bodies delay nothing, not even in their own organization; their requests are executed in turn.
func TestSlowBodiesDelayNothing(t *testing.T) {
	const more = 100 // than may be in progress
	s := serve(t)
	began, release := make(beginnings, more), make(chan struct{})
	var asking sync.WaitGroup
	goOn := sync.OnceFunc(func() { close(release) })
	defer asking.Wait()
	defer goOn()
	answers := make(chan int, more)
	for i := range more {
		asking.Go(func() {
			text := fmt.Sprintf(`{"name":"%d","description":"d"}`, i)
			body := &slow{Reader: strings.NewReader(text), began: began, release: release}
			r := s.request(t, request{method: http.MethodPost, path: feedsPath}, body)
			r.Header.Set("Content-Type", "application/json")
			if i%2 == 0 {
				r.ContentLength = int64(len(text))
			}
			answers <- serveTo(s.api, r).status
		})
	}
	began.times(t, more)
	s.get(t, "/feeds/events").into(t, 200, new([]any))
	s.post(t, "/feeds/events", `{"name":"quick","description":"d"}`).into(t, 201, new(any))
	goOn()
	for range more {
		assert.Equal(t, <-answers, 201, "a slow body was answered")
	}
}
