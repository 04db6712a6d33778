package adapters_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command"
	"carillon/command/collect"
	"carillon/eventstore"
	"carillon/projections/items"
	"carillon/projections/sources"
)

// leaflets is a source of several pages that the test decides: its root lists the others.
type leaflets struct {
	mu     sync.Mutex
	listed []string
	pages  map[string]leaflet // by address; a missing one is gone
	asked  []string
}

type leaflet struct {
	tells   []collect.Observation
	err     error
	partial bool
	notes   collect.Notes
}

func (l *leaflets) set(address string, page leaflet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.pages == nil {
		l.pages = map[string]leaflet{}
	}
	if !slices.Contains(l.listed, address) && address != "root" {
		l.listed = append(l.listed, address)
	}
	l.pages[address] = page
}

func (l *leaflets) remove(address string, listed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pages, address)
	if !listed {
		l.listed = slices.DeleteFunc(l.listed, func(a string) bool { return a == address })
	}
}

// Start implements collect.Collector.
func (*leaflets) Start(collect.Source) []collect.Link {
	return []collect.Link{{Address: "root", List: true}}
}

// Read implements collect.Collector.
func (l *leaflets) Read(_ context.Context, source collect.Source, known collect.Known) (collect.Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	// Keys and addresses are the source's own, as those of real ones are.
	host := source.Handle + ".example"
	own := strings.NewReplacer("example.org", host)
	address := strings.ReplaceAll(known.Address, host, "example.org")
	l.asked = append(l.asked, address)
	page, ok := l.pages[address]
	switch {
	case !ok && address != "root":
		return collect.Page{}, &collect.StatusError{Code: 410}
	case page.err != nil:
		return collect.Page{}, page.err
	}
	read := collect.Page{Requests: 1, Partial: page.partial, Notes: page.notes}
	for _, o := range page.tells {
		o.Source = happening.Block{Type: source.Type}
		o.Key, o.Keys = own.Replace(o.Key), slices.Clone(o.Keys)
		for i, key := range o.Keys {
			o.Keys[i] = own.Replace(key)
		}
		read.Observations = append(read.Observations, o)
	}
	if address == "root" {
		for _, listed := range l.listed {
			read.Links = append(read.Links, collect.Link{Address: own.Replace(listed)})
		}
	}
	return read, nil
}

// tells returns a page's view of a concert.
func tells(key, title string, standing happening.Standing, with func(*happening.Details)) collect.Observation {
	instance := happening.DeriveInstanceID(key, "")
	o := collect.Observation{
		Key:      key,
		Keys:     []string{key},
		Standing: standing,
		Details: happening.Details{
			Title: title, Instances: []happening.Instance{{
				ID:     instance,
				Status: happening.Scheduled,
				Occurrences: []happening.Occurrence{{
					ID: happening.DeriveOccurrenceID(instance, 0), Start: soon, Status: happening.Scheduled,
				}},
			}},
		},
	}
	if with != nil {
		with(&o.Details)
	}
	return o
}

func concert(name string) leaflet {
	return leaflet{tells: []collect.Observation{tells("url:example.org/"+name, name, happening.FromOwnPage, nil)}}
}

// open starts everything with leaflets for a source.
func (l *leaflets) open(t testing.TB) (*world, uuid.UUID) {
	t.Helper()
	w := open(t, map[string]collect.Collector{"facebook": l})
	source := w.source(command.RegisterSource{Type: "facebook", Handle: unique("leaflets")})
	return w, source
}

// walk has the source walked once, and returns the sorted types of the happenings' events meanwhile.
func (w *world) walk(source uuid.UUID) string {
	w.t.Helper()
	before := w.happened()
	ended := len(w.recorded("source.collection-completed.v1")) + len(w.recorded("source.collection-failed.v1"))
	w.collect(source)
	w.eventually("the walk has ended", func() bool {
		return len(w.recorded("source.collection-completed.v1"))+len(w.recorded("source.collection-failed.v1")) > ended
	})
	w.visitEnded(source)
	came := w.happened()[len(before):]
	slices.Sort(came)
	return strings.Join(came, " ")
}

// visitEnded waits until no visit of a source is in progress, nor a walk.
func (w *world) visitEnded(source uuid.UUID) {
	w.t.Helper()
	w.eventually("the visit has ended", func() bool {
		var walking bool
		err := w.pool.QueryRow(w.t.Context(), "SELECT walking OR holder IS NOT NULL FROM carillon.source_walks "+
			"WHERE source_id = $1", source).Scan(&walking)
		return err == nil && !walking
	})
}

// happened lists the events of happenings, in the order of recording.
func (w *world) happened() []string {
	w.t.Helper()
	var all []eventstore.Recorded
	for _, name := range []string{"observed", "revised", "went-stale"} {
		all = append(all, w.recorded("happening."+name+".v1")...)
	}
	slices.SortFunc(all, func(a, b eventstore.Recorded) int {
		switch {
		case a.Position.Commit < b.Position.Commit:
			return -1
		case a.Position.Commit > b.Position.Commit:
			return 1
		}
		return 0
	})
	names := make([]string, len(all))
	for i := range all {
		names[i] = strings.TrimSuffix(strings.TrimPrefix(all[i].Type, "happening."), ".v1")
	}
	return names
}

func (w *world) expectWalk(source uuid.UUID, want string) {
	w.t.Helper()
	if got := w.walk(source); got != want {
		w.t.Errorf("the walk came to %q, want %q", got, want)
	}
}

// A listing and the page of an event show different halves of it, by different evidence: it is observed once, whole,
// and not revised at each visit.
func TestPagesOfSourceMakeOneView(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	listing := tells("url:example.org/jazz", "Jazz", happening.FromListing, func(d *happening.Details) {
		d.PrimaryImage = "https://example.org/jazz.png"
	})
	own := tells("id:example.org:17", "Jazz night", happening.FromOwnPage, func(d *happening.Details) {
		d.Description, d.Location = "<p>A quartet</p>", &happening.Location{Venue: &happening.Venue{Name: "Hall"}}
	})
	own.Keys = append(own.Keys, "url:example.org/jazz")
	l.set("root", leaflet{tells: []collect.Observation{listing}})
	l.set("https://example.org/jazz", leaflet{tells: []collect.Observation{own}})
	w, source := l.open(t)
	w.expectWalk(source, "observed")
	for range 3 {
		w.expectWalk(source, "")
	}
	event, err := happening.Events.Decode(&w.recorded("happening.observed.v1")[0])
	if err != nil {
		t.Fatal(err)
	}
	if d := event.(happening.Observed).Details; d.Title != "Jazz night" || d.PrimaryImage == "" || d.Location == nil ||
		d.Description == "" { //nolint:forcetypeassert // by its name
		t.Errorf("observed: %+v", d)
	}

	// Each half may change by itself.
	own.Details.Description = "<p>A quintet</p>"
	l.set("https://example.org/jazz", leaflet{tells: []collect.Observation{own}})
	w.expectWalk(source, "revised")
	l.set("https://example.org/jazz", leaflet{err: collect.ErrTimeout})
	w.expectWalk(source, "") // its views are remembered
	l.remove("https://example.org/jazz", true)
	w.expectWalk(source, "revised") // the listing still shows it, and knows less
	l.set("root", leaflet{})
	w.expectWalk(source, "went-stale")
}

// Happenings go stale by pages that were read, or are gone.
func TestStaleFollowsFromPages(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	l.set("a", concert("jazz"))
	l.set("b", concert("quiz"))
	w, source := l.open(t)
	w.expectWalk(source, "observed observed")
	for what, page := range map[string]leaflet{
		"failed":           {err: collect.ErrTimeout},
		"too complex":      {err: collect.ErrTooComplex},
		"cut":              {partial: true},
		"truncated":        {notes: collect.Notes{{Code: collect.NoteTruncated, Text: "cut"}}},
		"needs JavaScript": {notes: collect.Notes{{Code: collect.NoteNeedsJavaScript, Text: "scripts only"}}},
	} {
		l.set("a", page)
		if got := w.walk(source); got != "" {
			t.Errorf("a page that %s came to %q", what, got)
		}
	}
	l.set("a", concert("jazz"))
	w.expectWalk(source, "")
	l.set("root", leaflet{partial: true}) // a list that was not read whole makes nothing stale
	l.remove("b", false)
	w.expectWalk(source, "")
	l.set("root", leaflet{err: collect.ErrTimeout})
	w.expectWalk(source, "")
	l.set("root", leaflet{})
	w.expectWalk(source, "went-stale") // b is off the list
	l.remove("a", true)
	w.expectWalk(source, "went-stale") // a is listed, and gone
	l.set("a", concert("jazz"))
	w.expectWalk(source, "observed")
	l.set("a", concert("blues"))
	w.expectWalk(source, "observed went-stale")
}

// The memory of walks may be lost at any time. Then everything is requested again, and nothing is recorded again.
func TestMemoryOfWalksMayBeLost(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		meanwhile func(*leaflets)
		want      string
	}{
		"as it was":        {func(*leaflets) {}, ""},
		"a page is gone":   {func(l *leaflets) { l.remove("b", true) }, "went-stale"},
		"a page fails":     {func(l *leaflets) { l.set("b", leaflet{err: collect.ErrTimeout}) }, ""},
		"a page has a new": {func(l *leaflets) { l.set("c", concert("new")) }, "observed"},
		"half of it is new": {func(l *leaflets) {
			l.set("b", leaflet{
				tells: []collect.Observation{tells("url:example.org/quiz", "Pub quiz", happening.FromOwnPage, nil)},
			})
		}, "revised"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leaflets{}
			listed := tells("url:example.org/quiz", "Quiz!", happening.FromListing, func(d *happening.Details) {
				d.PrimaryImage = "https://example.org/quiz.png"
			})
			l.set("root", leaflet{tells: []collect.Observation{listed}})
			l.set("a", concert("jazz"))
			l.set("b", concert("quiz"))
			if name == "a page is gone" {
				l.set("root", leaflet{})
			}
			w, source := l.open(t)
			w.walk(source)
			w.expectWalk(source, "")
			w.loseWalks()
			tt.meanwhile(l)
			w.expectWalk(source, tt.want)
			w.expectWalk(source, "")
		})
	}
}

// loseWalks forgets what is remembered of walks. The read models know what was recorded, so that no walk is wished for.
func (w *world) loseWalks() {
	w.t.Helper()
	for _, kind := range []string{"source.collection-completed.v1", "happening.observed.v1", "happening.revised.v1",
		"happening.went-stale.v1"} {
		all := w.recorded(kind)
		if len(all) == 0 {
			continue
		}
		last := all[len(all)-1]
		w.await(last.Position, nil, sources.ReadModel.Name)
		if last.Category() == happening.Aggregate.Category {
			w.await(last.Position, nil, items.ReadModel.Name)
		}
	}
	if _, err := w.pool.Exec(w.t.Context(),
		"TRUNCATE carillon.source_walks, carillon.source_views, carillon.source_tellings CASCADE"); err != nil {
		w.t.Fatal(err)
	}
}

// A walk that is cut off goes on behind the page that was recorded last, in another process as well.
func TestWalkResumes(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	var want []string
	for i := range 9 {
		address := fmt.Sprintf("page %d", i)
		want = append(want, address)
		l.set(address, concert(fmt.Sprint(i)))
	}
	reached, release := make(chan struct{}), make(chan struct{})
	held := &holding{
		leaflets: l,
		at:       "page 4",
		reached:  reached,
		release:  release,
	}
	w := open(t, map[string]collect.Collector{"facebook": held})
	source := w.source(command.RegisterSource{Type: "facebook", Handle: unique("leaflets")})
	w.collect(source)
	<-reached
	w.stop()
	close(release)
	l.mu.Lock()
	before := slices.Clone(l.asked)
	l.mu.Unlock()
	w.curateAndMonitor(map[string]collect.Collector{"facebook": l})
	w.eventuallyState(source, 1, "ok")
	l.mu.Lock()
	defer l.mu.Unlock()
	if all := slices.DeleteFunc(slices.Clone(l.asked), func(a string) bool {
		return a == "root" || a == "page 4"
	}); !slices.Equal(all, slices.DeleteFunc(want, func(a string) bool { return a == "page 4" })) {
		t.Errorf("asked for %v, before the cut %v", l.asked, before)
	}
	if count := len(w.recorded("happening.observed.v1")); count != 9 {
		t.Errorf("%d happenings", count)
	}
}

// holding holds a visit at one page, until it is cut off.
type holding struct {
	*leaflets

	at               string
	reached, release chan struct{}
	once             sync.Once
}

// Read implements collect.Collector.
func (h *holding) Read(ctx context.Context, source collect.Source, known collect.Known) (collect.Page, error) {
	if known.Address == h.at {
		h.once.Do(func() { close(h.reached) })
		<-ctx.Done()
		return collect.Page{}, context.Cause(ctx)
	}
	return h.leaflets.Read(ctx, source, known)
}
