//go:build nightly

package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
)

// inOrder is a receiver that notes how often each event came to each destination, and whether destinations got theirs
// in the order of publication.
type inOrder struct {
	mu       sync.Mutex
	counts   map[string]int
	places   map[string]int // of events
	last     map[string]int // place of the last event of a destination
	early    int            // deliveries that came before an older one of their destination
	farthest int            // by as many events at most
	at       time.Time      // of the last request
	pause    time.Duration  // the longest one between requests
}

// ServeHTTP implements http.Handler.
func (r *inOrder) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(req.Body)
	w.WriteHeader(http.StatusNoContent)
	if err != nil || req.Method != http.MethodPost {
		return
	}
	now, id := time.Now(), eventOf(body)
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.at.IsZero() {
		r.pause = max(r.pause, now.Sub(r.at))
	}
	r.at = now
	key := req.URL.Path + " " + id
	if r.counts[key]++; r.counts[key] > 1 {
		return
	}
	place := r.places[id]
	if last := r.last[req.URL.Path]; place < last {
		r.early++
		r.farthest = max(r.farthest, last-place)
	}
	r.last[req.URL.Path] = max(r.last[req.URL.Path], place)
}

// came returns how many deliveries came, and how many requests repeated one.
func (r *inOrder) came() (deliveries, again int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, n := range r.counts {
		again += n - 1
	}
	return len(r.counts), again
}

// attempted returns how many requests a server has made, as its metrics say.
func (a *apart) attempted(p *process) (n int) {
	_, text := (&rig{process: p, client: a.client}).look("/metrics")
	for line := range strings.Lines(text) {
		if strings.HasPrefix(line, "carillon_delivery_attempt_seconds_count{") {
			count, _ := strconv.Atoi(line[strings.LastIndex(line, " ")+1 : len(line)-1])
			n += count
		}
	}
	return n
}

// BenchmarkApartDue: what an organization's resumption makes due, and how deliverers share it; the same if one of two
// is killed.
func BenchmarkApartDue(b *testing.B) {
	const destinations = 40
	due := size("DUE", 100_000)
	for _, row := range []struct {
		name       string
		deliverers int
		kill       bool
	}{
		{"one", 1, false},
		{"two", 2, false},
		{"one-of-two-killed", 2, true},
	} {
		b.Run(row.name, func(b *testing.B) {
			roles := slices.Repeat([]string{"deliver"}, row.deliverers)
			a := newApart(b, append([]string{"api,project,collect,dispatch"}, roles...)...)
			a.login()
			receiver := &inOrder{
				counts: map[string]int{},
				places: map[string]int{},
				last:   map[string]int{},
			}
			a.receive(receiver, destinations)
			deliverers := a.processes[2:]
			a.operate("suspend")
			for published := 0; published < due/destinations; {
				var lines strings.Builder
				for range min(500, due/destinations-published) {
					id := uuid.New()
					published++
					receiver.places[id.String()] = published
					lines.Write(event(id, organization))
					lines.WriteByte('\n')
				}
				if err := a.rig.publish(asNDJSON, strings.NewReader(lines.String())); err != nil {
					b.Fatal(err)
				}
			}
			a.until("all are due", func() bool { return a.count("SELECT count(*) FROM deliveries.due") == due })
			began := time.Now()
			a.operate("resume")
			if row.kill {
				a.until("a fifth came", func() bool { n, _ := receiver.came(); return n >= due/5 })
				deliverers[0].end(os.Kill)
			}
			claimed := 0
			a.until("all came", func() bool {
				claimed = max(claimed, a.count(
					"SELECT count(*) FROM deliveries.due WHERE worker IS NOT NULL AND available_at > now()"))
				n, _ := receiver.came()
				return n == due
			})
			took := time.Since(began)
			a.succeeded(due)
			_, again := receiver.came()
			report(b, "again", float64(again))
			report(b, "deliveries/s", float64(due)/took.Seconds())
			report(b, "longest-pause-s", receiver.pause.Seconds())
			report(b, "claimed-ahead-s", float64(claimed)*took.Seconds()/float64(due))
			report(b, "before-an-older-one", float64(receiver.early))
			report(b, "before-an-older-one-by", float64(receiver.farthest))
			if row.deliverers == 2 && !row.kill {
				share := 100 * float64(a.attempted(deliverers[0])) / float64(due)
				reportAtLeast(b, "smaller-share-%", min(share, 100-share), 40)
			}
		})
	}
}

// operate suspends or resumes the organization.
func (a *apart) operate(verb string) {
	a.Helper()
	path := fmt.Sprintf("/admin/organizations/%s/%s", organization, verb)
	if err := a.call(http.MethodPost, a.admin+path, a.token, map[string]any{}, nil); err != nil {
		a.Fatal(err)
	}
}
