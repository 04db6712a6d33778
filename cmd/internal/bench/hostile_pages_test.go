//go:build nightly

package bench

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminclient"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

const (
	hostileBytes  = 10<<20 - 1<<10 // of each page: as much as is read of any
	hostileMemory = 500            // MB of the server that reads them, event store included
	hostileLeave  = 5 * time.Second
)

// hostilePages are as long as a page may be, and cost as much as one can.
func hostilePages() map[string]string {
	fill := func(begin, piece, end string) string {
		var b strings.Builder
		b.WriteString(begin)
		for i := 0; b.Len() < hostileBytes-len(piece)-len(end); i++ {
			b.WriteString(strings.ReplaceAll(piece, "$", fmt.Sprint(i)))
		}
		return b.String() + end
	}
	const ld = `<script type="application/ld+json">`
	return map[string]string{
		"elements": fill("<p>", "<i>", ""),
		"depth":    fill("", "<div>", ""),
		"brackets": fill(ld, "[", "</script>"),
		"events": fill("",
			ld+`[`+strings.Repeat(`{"@type":"Event","name":"Event $","startDate":"2027-01-05T20:00","url":"/$"},`, 1000)+
				`{}]</script>`, ""),
		"attributes": fill("<p ", "a$=1 ", ">"),
		"microdata": fill("", `<div itemscope itemtype="https://schema.org/Event"><i itemprop="name">Event $</i><i `+
			`itemprop="startDate">2027-01-05</i></div>`, ""),
		"calendar": fill("BEGIN:VCALENDAR\r\n", "BEGIN:VEVENT\r\nUID:$\r\nSUMMARY:Event $\r\nDTSTART:20070105T200000Z\r\n"+
			"RRULE:FREQ=DAILY;UNTIL=20170105T200000Z\r\nEND:VEVENT\r\n", "END:VCALENDAR\r\n"),
		"words": fill(ld+`{"@type":"Event","name":"Event","startDate":"2027-01-05"}</script>`,
			"<p>"+strings.Repeat("words that say nothing ", 1000), ""),
	}
}

// A server that reads eight pages of 10 MiB at one time stays within its memory, and ends soon when it is asked to.
func TestServeBesideHostilePages(t *testing.T) {
	t.Parallel()
	s := prepare(t)
	s.startServer()
	client := adminclient.New("http://"+s.admin, s.token)
	var sent atomic.Int32
	var sources []uuid.UUID
	for name, page := range hostilePages() {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/"+name {
				http.NotFound(w, r)
				return
			}
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			_, _ = w.Write([]byte(page))
			sent.Add(1)
		}))
		t.Cleanup(server.Close)
		created := must.Get(client.AddSource(t.Context(), adminclient.NewSource{
			Type:     "site",
			URL:      server.URL + "/" + name,
			Timezone: "Europe/Rome",
		}))(t)
		sources = append(sources, created.ID)
	}
	collect := func() {
		for _, id := range sources {
			must.OK(t, client.CollectSource(t.Context(), id))
		}
	}
	collect()
	s.until("all were read, or refused", func() bool {
		list, err := client.Sources(t.Context(), adminclient.SourceFilter{})
		ended := 0
		for _, source := range list {
			if source.State == "ok" || source.State == "failing" {
				ended++
			}
		}
		return err == nil && ended == len(sources)
	})
	list := must.Get(client.Sources(t.Context(), adminclient.SourceFilter{}))(t)
	for _, source := range list {
		expectRead(t, source)
	}
	if peak := s.resident("VmHWM"); peak > hostileMemory {
		t.Errorf("the server took %.0f MB", peak)
	} else {
		t.Logf("%d pages of 10 MiB: %.0f MB", len(sources), peak)
	}

	sent.Store(0)
	collect()
	s.until("half of them have been sent again", func() bool { return int(sent.Load()) >= len(sources)/2 })
	before, signalled := s.processorTime(), time.Now()
	state := s.End(syscall.SIGTERM)
	used := state.UserTime() + state.SystemTime() - before // on a busy machine the clock measures others
	assert.True(t, min(used, time.Since(signalled)) <= hostileLeave,
		"it ended %s after SIGTERM, of which it worked %s", time.Since(signalled), used)
	t.Logf("it ended %s after SIGTERM, and worked %s", time.Since(signalled).Round(time.Millisecond),
		used.Round(time.Millisecond))
}

// expectRead expects that a page was read, or refused for its cost.
func expectRead(t *testing.T, s query.Source) {
	t.Helper()
	if s.State == "failing" && !strings.Contains(s.Message, "too complex") {
		t.Errorf("%s: %s", s.URL, s.Message)
	}
	t.Logf("%s: %s, %d happenings, %s", s.URL, s.State, s.Observed, s.Message)
}
