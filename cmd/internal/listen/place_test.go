package listen

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"carillon/cmd/internal/apiclient"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// without returns a client of a server that has no destination. It calls asked with the path of each request.
func without(t *testing.T, asked func(path string)) *apiclient.Client {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked(r.URL.Path)
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"success":false,"error":{"code":"NOT_FOUND","message":"destination not found"}}`))
	}))
	t.Cleanup(server.Close)
	api := must.Get(apiclient.New(server.URL, "ck_1", ""))(t)
	return api
}

// TestTakePlace_otherMachine takes a place beside a machine with the same host and user: neither removes what the other
// has.
func TestTakePlace_otherMachine(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	removed := map[string]int{}
	api := without(t, func(path string) {
		mu.Lock()
		defer mu.Unlock()
		removed[path]++
	})
	own, other := t.TempDir(), t.TempDir()
	for i, dir := range []string{own, other, own} { // one that restarts looks through its own places
		p, err := (&listener{Options: Options{API: api, LockDir: dir}}).takePlace(t.Context())
		must.True(t, err == nil, "%d: %v", i, err)
		p.release()
	}
	assert.Equal(t, len(removed), 2*maxPlaces, "removed %v", removed)
}

// TestTakePlace_eightAtOnce: those that have no place learn why.
func TestTakePlace_eightAtOnce(t *testing.T) {
	t.Parallel()
	l := &listener{Options: Options{API: without(t, func(string) {}), LockDir: t.TempDir()}}
	refused := make(chan error, 2*maxPlaces)
	for range cap(refused) {
		go func() {
			p, err := l.takePlace(t.Context())
			if err == nil {
				t.Cleanup(p.release) // one that nobody keeps is unlocked when its file is collected
			}
			refused <- err
		}()
	}
	taken := 0
	for range cap(refused) {
		if err := <-refused; err == nil {
			taken++
		} else if !strings.Contains(err.Error(), "4 listeners of this user are running: stop one") {
			t.Error(err)
		}
	}
	assert.Equal(t, taken, maxPlaces, "have a place")
}

// TestTakePlace_oneAtATime starts a listener while another one that starts has locked a place to look through it: the
// places that are free are enough for both.
func TestTakePlace_oneAtATime(t *testing.T) {
	t.Parallel()
	looking, goOn := make(chan struct{}), make(chan struct{})
	api := without(t, func(path string) {
		if strings.HasSuffix(path, ".2") {
			looking <- struct{}{}
			<-goOn
		}
	})
	l := &listener{Options: Options{API: api, LockDir: t.TempDir()}}
	for _, i := range []int{2, 3} { // of listeners that run
		p := must.Get(l.lockPlace(i))(t)
		defer p.release()
	}
	taken := make(chan *place)
	take := func() {
		p, err := l.takePlace(t.Context())
		assert.OK(t, err)
		taken <- p
	}
	go take()
	<-looking
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	assert.Is(t, assert.Err(l.takePlace(stopped)), context.Canceled, "a listener does not wait for the other")
	go func() {
		goOn <- struct{}{}
		<-looking // the second takes it
		goOn <- struct{}{}
	}()
	first := <-taken
	go take()
	if second := <-taken; first == nil || second == nil || first.externalID == second.externalID {
		t.Errorf("taken %+v and %+v", first, second)
	}
}
