package listen

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/cmd/internal/apiclient"
)

// TestTakePlace_oneAtATime starts a listener while another one that starts has locked a place to look through it: the
// places that are free are enough for both.
func TestTakePlace_oneAtATime(t *testing.T) {
	t.Parallel()
	looking, goOn := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, ".2") {
			looking <- struct{}{}
			<-goOn
		}
		w.WriteHeader(http.StatusNotFound)
		_, _ = w.Write([]byte(`{"success":false,"error":{"code":"NOT_FOUND","message":"destination not found"}}`))
	}))
	defer server.Close()
	api, err := apiclient.New(server.URL, "ck_1", "")
	if err != nil {
		t.Fatal(err)
	}
	l := &listener{Options: Options{API: api, LockDir: t.TempDir()}}
	for _, i := range []int{2, 3} { // of listeners that run
		p, err := l.lockPlace(i)
		if err != nil {
			t.Fatal(err)
		}
		defer p.release()
	}
	taken := make(chan *place)
	take := func() {
		p, err := l.takePlace(t.Context())
		if err != nil {
			t.Error(err)
		}
		taken <- p
	}
	go take()
	<-looking
	stopped, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := l.takePlace(stopped); !errors.Is(err, context.Canceled) {
		t.Errorf("a listener does not wait for the other: %v", err)
	}
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
