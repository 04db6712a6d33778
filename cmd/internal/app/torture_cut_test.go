//go:build nightly

package app_test

import (
	"cmp"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// passage is a connection to a server that can be cut: data waits until it is restored, or connections are refused.
type passage struct {
	*testing.T
	network, to, address string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
	held     chan struct{} // closed when it is mended; nil while all passes
}

func newPassage(t *testing.T, network, to string) *passage {
	t.Helper()
	p := &passage{
		T:       t,
		network: network,
		to:      to,
		address: "127.0.0.1:0",
		open:    map[net.Conn]struct{}{},
	}
	p.listen()
	t.Cleanup(func() {
		p.refuse()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held != nil {
			close(p.held)
		}
	})
	return p
}

func newPassageToPostgres(t *testing.T, database string) *passage {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	return newPassage(t, network, address)
}

func (p *passage) listen() {
	p.Helper()
	listener, err := (&net.ListenConfig{}).Listen(p.Context(), "tcp", p.address)
	if err != nil {
		p.Error(err)
		return
	}
	p.mu.Lock()
	p.listener, p.address = listener, listener.Addr().String()
	p.mu.Unlock()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go p.carry(from)
		}
	}()
}

func (p *passage) carry(from net.Conn) {
	p.pass()
	to, err := (&net.Dialer{}).DialContext(p.Context(), p.network, p.to)
	if err != nil {
		_ = from.Close()
		return
	}
	p.mu.Lock()
	p.open[from], p.open[to] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pipe(from, to) })
	both.Go(func() { p.pipe(to, from) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, from)
	delete(p.open, to)
	p.mu.Unlock()
}

func (p *passage) pipe(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.pass()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while packets vanish.
func (p *passage) pass() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

func (p *passage) vanish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

func (p *passage) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *passage) mend() {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	if held != nil {
		close(held)
		return
	}
	p.listen()
}

// cut is one way, or the ways of both, that are cut for a time.
type cut struct {
	ways   func(*two) []*passage
	refuse bool
	length time.Duration
}

// cuts are named by the server and its lost connection.
func cuts() map[string]cut {
	all := map[string]cut{}
	ways := map[string]func(*two) []*passage{
		"store, holder":    func(w *two) []*passage { return w.stores[w.holds() : w.holds()+1] },
		"store, both":      func(w *two) []*passage { return w.stores },
		"postgres, holder": func(w *two) []*passage { return w.databases[w.holds() : w.holds()+1] },
		"postgres, both":   func(w *two) []*passage { return w.databases },
	}
	for what, ways := range ways {
		for kind, refuse := range map[string]bool{"vanish": false, "refuse": true} {
			for _, length := range []time.Duration{20 * time.Second, 90 * time.Second} {
				all[fmt.Sprintf("%s, %s, %s", what, kind, length)] = cut{ways, refuse, length}
			}
		}
	}
	return all
}

// Two processes, of which one or both lose the way to the event store or to Postgres. While one of them has both ways,
// no event waits for longer than others need to take over; when none has, none waits for longer after the end of the
// cut. CARILLON_TORTURE_ONLY chooses cuts by a part of their name.
func TestTortureDeliveryThatIsCutOff(t *testing.T) {
	if os.Getenv("CARILLON_TORTURE_KILLS") == "" {
		t.Skip("make torture-delivery asks for it") // it takes half an hour
	}
	all := cuts()
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(all)), func(name string) bool {
		return !strings.Contains(name, os.Getenv("CARILLON_TORTURE_ONLY"))
	})
	w := newTwoOn(t, true)
	stop := w.publish()
	var table strings.Builder
	for _, name := range names {
		w.eventually("no end of the cut before", func() bool { return w.well(time.Now().Add(-time.Second)) })
		fmt.Fprintf(&table, "%-36s %s\n", name, w.endure(name, all[name]))
	}
	stop()
	if lost := w.settle(patience); lost > 0 {
		t.Errorf("%d acknowledged events were not delivered", lost)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	t.Logf("%d events acknowledged, %d requests came again\n%s", len(w.told), w.copies, table.String())
}

// endure cuts, and returns the longest time without a delivery: in all if one server is well, else after the cut.
func (w *two) endure(name string, c cut) string {
	w.Helper()
	ways := c.ways(w)
	w.mu.Lock()
	copies := w.copies
	w.mu.Unlock()
	began := time.Now()
	for _, way := range ways {
		if c.refuse {
			way.refuse()
		} else {
			way.vanish()
		}
	}
	time.Sleep(c.length) // the fault itself
	for _, way := range ways {
		way.mend()
	}
	ended := time.Now()
	w.eventually(name+": no end of the outage", func() bool { return w.well(ended) })
	from := began
	if len(ways) > 1 {
		from = ended
	}
	longest := w.longest(from)
	if longest > longOutage {
		w.Errorf("%s: %s without a delivery", name, longest.Round(10*time.Millisecond))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	again := w.copies - copies
	w.Logf("%-36s longest %8s, well again after %8s, again %d",
		name, longest.Round(10*time.Millisecond), time.Since(ended).Round(10*time.Millisecond), again)
	return fmt.Sprintf("longest %8s, again %d", longest.Round(10*time.Millisecond), again)
}

// well reports whether an event that is newer than a moment has come, and all that were tried before.
func (w *two) well(since time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	fresh := false
	for id, tried := range w.tried {
		_, came := w.arrived[id]
		if tried.After(since) {
			fresh = fresh || came
		} else if !came {
			return false
		}
	}
	return fresh
}

// longest is the longest time without an arrival since a moment.
func (w *two) longest(since time.Time) (longest time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	last := since
	for _, at := range slices.SortedFunc(maps.Values(w.arrived), func(a, b time.Time) int { return a.Compare(b) }) {
		if at.After(since) {
			longest, last = max(longest, at.Sub(last)), at
		}
	}
	return cmp.Or(longest, time.Since(since))
}

// TestTortureDeliveryWithoutConnections takes all but a few of Postgres' connections, ends those that hold locks, and
// lets go again: both servers go on soon.
func TestTortureDeliveryWithoutConnections(t *testing.T) {
	if os.Getenv("CARILLON_TORTURE_KILLS") == "" {
		t.Skip("make torture-delivery asks for it")
	}
	w := newTwo(t)
	stop := w.publish()
	for _, left := range []int{20, 6} {
		w.eventually("no end of the fault before", func() bool { return w.well(time.Now().Add(-time.Second)) })
		began := time.Now()
		letGo := w.take(left)
		time.Sleep(20 * time.Second) // the fault itself
		ended := time.Now()
		letGo()
		w.eventually("no end of the outage", func() bool { return w.well(ended) })
		t.Logf("%d connections left: longest %s, after the end %s", left, w.longest(began).Round(10*time.Millisecond),
			w.longest(ended).Round(10*time.Millisecond))
		if after := w.longest(ended); after > longOutage {
			t.Errorf("%d connections left: %s without a delivery after the end", left, after.Round(10*time.Millisecond))
		}
	}
	stop()
	if lost := w.settle(patience); lost > 0 {
		t.Errorf("%d acknowledged events were not delivered", lost)
	}
}

// take takes the connections that are there but some, also those that hold locks.
func (w *two) take(left int) (letGo func()) {
	w.Helper()
	var taken []*pgx.Conn
	more := func() bool {
		conn, err := pgx.Connect(w.Context(), w.database.URL())
		if err != nil {
			return false
		}
		taken = append(taken, conn)
		return true
	}
	for more() {
	}
	if len(taken) == 0 {
		w.Fatal("no connection to take")
	}
	for ended := 1; ended > 0; { // as often as they are faster
		const end = `SELECT count(pg_terminate_backend(pid, 1000)) FROM pg_stat_activity
			WHERE application_name LIKE 'carillon % on %'`
		if err := taken[0].QueryRow(w.Context(), end).Scan(&ended); err != nil {
			w.Fatal(err)
		}
		for more() {
		}
	}
	for _, conn := range taken[len(taken)-left:] {
		_ = conn.Close(w.Context())
	}
	taken = taken[:len(taken)-left]
	return func() {
		for _, conn := range taken {
			_ = conn.Close(w.Context())
		}
	}
}

// holds is the number of the server that runs the dispatcher.
func (w *two) holds() int { return max(0, slices.Index(w.servers, w.holder())) }

// through is the address of a database through a passage.
func through(p *passage, database string) string {
	config, err := pgx.ParseConfig(database)
	if err != nil {
		p.Fatal(err)
	}
	address := url.URL{
		Scheme:   "postgres",
		Host:     p.address,
		User:     url.UserPassword(config.User, config.Password),
		Path:     "/" + config.Database,
		RawQuery: "sslmode=disable",
	}
	return address.String()
}
