package httpapi_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi/apitest"
)

// A list of feeds with long descriptions comes whole, and in parts.
func TestHostileFeedList(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const n = 25 // more than are read at once, twice
	long := strings.Repeat("é", 10_000)
	for i := range n {
		s.do(t, request{
			method: "POST",
			path:   "/feeds/events",
			body:   fmt.Sprintf(`{"name":"%d","description":"%s"}`, i, long),
		}).into(t, 201, new(any))
	}
	var list []struct {
		Name        string `json:"name"`
		Description string `json:"description"`
	}
	got := s.do(t, request{path: "/feeds/events"})
	got.into(t, 200, &list)
	if len(list) != n || got.header.Get("Content-Length") != "" {
		t.Errorf("%d feeds, length %q", len(list), got.header.Get("Content-Length"))
	}
	for i, one := range list {
		if one.Name != fmt.Sprint(i) || one.Description != long {
			t.Fatalf("feed %d is %q", i, one.Name)
		}
	}
	for field, body := range map[string]string{
		"name":        `{"name":"` + strings.Repeat("é", 256) + `","description":"d"}`,
		"description": `{"name":"n","description":"` + long + `é"}`,
	} {
		s.do(t, request{method: "POST", path: "/feeds/events", body: body}).blames(t, field, "must have at most")
	}
	for field, body := range map[string]string{
		"name": `{"name":"` + strings.Repeat("x", 256) + `"}`, "description": `{"description":"` + long + `é"}`,
	} {
		s.do(t, request{method: "PATCH", path: "/feeds/events/" + uuid.NewString(), body: body}).blames(t, field,
			"must have at most")
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
	t.Parallel()
	const underWay = 64
	s := serve(t)
	_, other := s.Organization(t, "Another organization")
	began, release := make(chan struct{}), make(chan struct{})
	ask := func(key string) *http.Request {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/feeds/events", http.NoBody)
		r.RemoteAddr = "127.0.0.1:40000"
		r.Header.Set("Authorization", "Bearer "+key)
		return r
	}
	var asking sync.WaitGroup
	for range underWay {
		asking.Go(func() {
			s.api.ServeHTTP(&held{ResponseRecorder: httptest.NewRecorder(), began: began, release: release}, ask(s.key))
		})
	}
	for range underWay {
		select {
		case <-began:
		case <-time.After(apitest.Patience):
			t.Fatal("not all requests have begun")
		}
	}
	s.do(t, request{path: "/feeds/events", key: other}).into(t, 200, new([]any))
	got := s.do(t, request{path: "/feeds/events"})
	got.refused(t, 429, "RATE_LIMITED", "limit requestsUnderWay: 64")
	if got.header.Get("Retry-After") == "" {
		t.Error("no Retry-After")
	}
	close(release)
	asking.Wait()
	s.do(t, request{path: "/feeds/events"}).into(t, 200, new([]any))
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
	t.Parallel()
	const more = 100 // than may be in progress
	s := serve(t)
	began, release := make(chan struct{}, more), make(chan struct{})
	var asking sync.WaitGroup
	goOn := sync.OnceFunc(func() { close(release) })
	defer asking.Wait()
	defer goOn()
	answers := make(chan int, more)
	for i := range more {
		asking.Go(func() {
			text := fmt.Sprintf(`{"name":"%d","description":"d"}`, i)
			body := &slow{Reader: strings.NewReader(text), began: began, release: release}
			r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/feeds/events", body)
			r.RemoteAddr = "127.0.0.1:40000"
			r.Header.Set("Authorization", "Bearer "+s.key)
			r.Header.Set("Content-Type", "application/json")
			if i%2 == 0 {
				r.ContentLength = int64(len(text))
			}
			w := httptest.NewRecorder()
			s.api.ServeHTTP(w, r)
			answers <- w.Code
		})
	}
	for range more {
		select {
		case <-began:
		case <-time.After(apitest.Patience):
			t.Fatal("not all bodies are being read")
		}
	}
	s.do(t, request{path: "/feeds/events"}).into(t, 200, new([]any))
	s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"quick","description":"d"}`}).into(t,
		201, new(any))
	goOn()
	for range more {
		if status := <-answers; status != 201 {
			t.Errorf("a slow body was answered %d", status)
		}
	}
}
