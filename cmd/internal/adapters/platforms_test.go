package adapters_test

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/facebook"
	"carillon/command/collect/sources/platform"
	"carillon/command/collect/sources/twitter"
	"carillon/eventstore"
)

// An account becomes items: the platform's own event, and a post with a date. A later refusal of the platform is a
// state of the source, and nothing goes stale by it; removed events do.
func TestAccountToItems(t *testing.T) {
	t.Parallel()
	const secret = "EAAB-hunter2"
	now := time.Now().UTC()
	in := func(days int, form string) string { return now.AddDate(0, 0, days).Format(form) }
	var refused, deleted atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case refused.Load():
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprint(w, `{"error":{"message":"Session has expired","code":190,"error_subcode":463}}`)
		case r.FormValue("access_token") != secret:
			t.Errorf("asked without the token: %s", r.URL.Path)
		case strings.HasSuffix(r.URL.Path, "/events"):
			_, _ = fmt.Fprintf(w, `{"data":[{"id":"77","name":"Harbour Jazz Night","start_time":%q,"timezone":"Europe/`+
				`Copenhagen","place":{"name":"Kajhallen"},"owner":{"id":"1","name":"Kajhallen","username":"kajhallen"},`+
				`"type":"public"}],
				"paging":{"cursors":{"after":"x"},"next":"http://example.org/?access_token=%s"}}`,
				in(10, "2006-01-02T15:04:05-0700"), secret)
		case deleted.Load():
			_, _ = fmt.Fprint(w, `{"data":[]}`)
		default:
			_, _ = fmt.Fprintf(w, `{"data":[{"id":"1_5","message":"Open rehearsal on %s at 14:00, Havnegade 1. Free entry.",`+
				`"created_time":%q,"permalink_url":"https://www.facebook.com/1/posts/5","from":{"id":"1","name":"Kajhallen"}},
				{"id":"1_6","message":"Applications close on %[1]s at 14:00.","created_time":%[2]q,"permalink_url":"https://`+
				`www.facebook.com/1/posts/6","from":{"id":"1","name":"Kajhallen"}}]}`,
				in(12, "Monday 2 January 2006"), in(-1, "2006-01-02T15:04:05-0700"))
		}
	}))
	lasting(t).Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	window := func() timing.Window { return timing.WindowAt(now) }
	options := platform.Options{Base: server.URL, Transport: transport, Hosts: fetch.NewMemory()}
	w := openNew(t, map[string]collect.Collector{
		"facebook": facebook.New(secret, window, options),
		"twitter":  twitter.New("", window, options),
	})
	source, feed := w.source(command.RegisterSource{
		Type:     "facebook",
		Handle:   "@kajhallen",
		Timezone: "Europe/Copenhagen",
	}), w.feed()
	w.attach(feed, source, "facebook")
	w.eventuallyItems(feed, "Harbour Jazz Night", "Open rehearsal")
	for title, want := range map[string][]string{
		"Harbour Jazz Night": {`"type":"facebook","subtype":"event","permalinkUrl":"https://www.facebook.com/events/77/"`,
			`"publisher":{"type":"page","name":"Kajhallen","username":"kajhallen"`},
		"Open rehearsal": {`"type":"facebook","subtype":"post","permalinkUrl":"https://www.facebook.com/1/posts/5"`,
			`"startDateTime"`},
	} {
		body, err := w.queries.Item(t.Context(), w.by.Organization, feed, w.titles(feed)[title], true, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !bytes.Contains(bytes.ReplaceAll(body, []byte(" "), nil), []byte(strings.ReplaceAll(part, " ", ""))) {
				t.Errorf("%s lacks %s:\n%s", title, part, body)
			}
		}
	}
	w.eventuallyState(source, 1, "ok")

	refused.Store(true)
	w.collect(source)
	if got := w.eventuallyState(source, 2, "needs_credentials"); !strings.Contains(got.Message,
		"CARILLON_PLATFORM_TOKENS") || strings.Contains(got.Message, secret) {
		t.Errorf("message = %q", got.Message)
	}
	if stale := w.recorded("happening.went-stale.v1"); len(stale) != 0 {
		t.Errorf("%d happenings went stale by a refused token", len(stale))
	}
	refused.Store(false)
	deleted.Store(true)
	w.collect(source)
	w.eventuallyState(source, 3, "ok")
	w.eventually("the deleted post's event goes stale", func() bool {
		return len(w.recorded("happening.went-stale.v1")) == 1
	})

	silent := w.source(command.RegisterSource{Type: "twitter", Handle: "kajhallen"})
	w.collect(silent)
	if got := w.eventuallyState(silent, 1, "needs_credentials"); !strings.Contains(got.Message,
		"add twitter=TOKEN to CARILLON_PLATFORM_TOKENS") {
		t.Errorf("message = %q", got.Message)
	}
	for m, err := range w.store.Subscribe(t.Context(), eventstore.Start, eventstore.Filter{}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case m.CaughtUp:
			return
		case m.Event != nil && bytes.Contains(m.Event.Data, []byte("hunter2")):
			t.Errorf("the token is in %s", m.Event.Type)
		}
	}
}
