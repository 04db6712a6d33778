package esdb_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// pipes is a listener whose connections are in memory, so that a bubble of testing/synctest can hold client and node:
// its clock stands still while any of them has something to do, and no keepalive is late because the machine is busy.
type pipes struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
	breaks int           // connections that are broken at once
	url    string        // of the node, for clients
	stall  chan struct{} // holds up the server's answers until it is closed; nil means no delay
}

func newPipes() *pipes {
	return &pipes{conns: make(chan net.Conn), closed: make(chan struct{}), url: "esdb://127.0.0.1:2113?tls=false"}
}

// Accept implements net.Listener.
func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p *pipes) Close() error {
	p.once.Do(func() { close(p.closed) })
	return nil
}

// Addr implements net.Listener. The node serves gRPC alone on unix sockets.
func (*pipes) Addr() net.Addr { return &net.UnixAddr{Name: "memory", Net: "unix"} }

func (p *pipes) dial(ctx context.Context, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	if p.breaks > 0 { // one dial at a time
		p.breaks--
		return ours, theirs.Close()
	}
	if p.stall != nil {
		theirs = stalled{theirs, p.stall}
	}
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// stalled is a connection whose answers wait.
type stalled struct {
	net.Conn
	until <-chan struct{}
}

// Write implements net.Conn.
func (s stalled) Write(data []byte) (int, error) {
	<-s.until
	return s.Conn.Write(data)
}

// inMemory serves a node in the bubble of a test, and calls a function with a store on it.
func inMemory(t *testing.T, strict *stricttest.Strict, log *slog.Logger, use func(*esdb.Store)) {
	t.Helper()
	through(t, newPipes(), strict, log, use)
}

func through(t *testing.T, listener *pipes, strict *stricttest.Strict, log *slog.Logger, use func(*esdb.Store)) {
	t.Helper()
	n := must.Get(node.Open(node.Config{
		Dir:       "store",
		FS:        vfs.NewMem(),
		Quirks:    strict,
		Advertise: "127.0.0.1:2113",
	}))(t)
	served := make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	store := must.Get(esdb.OpenDialed(listener.url, listener.dial, log))(t)
	defer func() {
		assert.OK(t, errors.Join(store.Close(), n.Close(), <-served))
	}()
	use(store)
}

// TestBurst_breaksNothing: earlier servers drop a live subscription because of a burst, later ones let it fall behind
// without saying so; neither reaches the subscriber.
func TestBurst_breaksNothing(t *testing.T) {
	t.Parallel()
	for name, later := range map[string]bool{"23.10": false, "25.0": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				strict, logged := &stricttest.Strict{Later: later}, &nodetest.Log{}
				inMemory(t, strict, slog.New(slog.NewTextHandler(logged, nil)), func(store *esdb.Store) { burst(t, strict, store) })
				assert.Equal(t, logged.String(), "", "logged")
			})
		})
	}
}

func burst(t *testing.T, strict *stricttest.Strict, store *esdb.Store) {
	t.Helper()
	const rounds, burst = 5, 200
	stream, seen := "burst-"+uuid.NewString(), 0
	for message, err := range store.Subscribe(t.Context(), eventstore.Start, eventstore.Categories("burst")) {
		must.True(t, err == nil, "after %d events: %v", seen, err)
		if message.Event != nil {
			must.Equal(t, message.Event.Revision, eventstore.Revision(seen), "revision … came, want %d", seen)
			seen++
		}
		if seen == rounds*burst {
			break
		}
		if message.Event == nil && !message.CaughtUp || seen%burst != 0 || seen > 0 && message.CaughtUp {
			continue
		}
		synctest.Wait() // the subscription is live, and nothing of it is on its way
		list := make([]eventstore.Proposed, burst)
		for i := range list {
			list[i] = eventstore.Proposed{ID: uuid.New(), Type: "burst.came.v1", Data: []byte(`{}`)}
		}
		must.Get(store.Append(t.Context(), stream, eventstore.Revision(seen-1), list))(t)
	}
	assert.True(t, seen >= rounds*burst, "%d events came", seen)
	if dropped := strict.Dropped() > 0; dropped == strict.Later || dropped != (store.Resubscribed() > 0) {
		t.Errorf("dropped %d times, counted %d: the node was not strict", strict.Dropped(), store.Resubscribed())
	}
}

// TestAppend_lingers: an append that lingers is sent 10 ms later, or with the next one, or with 15 like it.
func TestAppend_lingers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inMemory(t, nil, slog.New(slog.DiscardHandler), func(store *esdb.Store) {
			var appending sync.WaitGroup
			began := time.Now()
			begin := func(ctx context.Context, n int) {
				for range n {
					appending.Go(func() {
						stream, happened := "thing-"+uuid.NewString(), uuid.New()
						list := []eventstore.Proposed{{ID: happened, Type: "thing.happened.v1", Data: []byte(`{}`)}}
						if _, err := store.Append(ctx, stream, eventstore.NoStream, list); err != nil {
							t.Error(err)
						}
					})
				}
				synctest.Wait()
			}
			took := func() time.Duration {
				appending.Wait()
				defer func() { began = time.Now() }()
				return time.Since(began)
			}
			begin(t.Context(), 1)
			assert.Equal(t, took(), 0, "an append takes")
			patient := eventstore.Linger(t.Context())
			begin(patient, 15)
			assert.Equal(t, took(), 10*time.Millisecond, "15 that linger take")
			begin(patient, 1)
			begin(t.Context(), 1)
			assert.Equal(t, took(), 0, "one that lingers, and one that does not, take")
			begin(patient, 16)
			assert.Equal(t, took(), 0, "16 that linger take")
		})
	})
}

// TestRead_slowReader: the time that a caller takes for its events does not count as the store's.
func TestRead_slowReader(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		inMemory(t, nil, slog.New(slog.DiscardHandler), func(store *esdb.Store) { slowly(t, store) })
	})
}

func slowly(t *testing.T, store *esdb.Store) {
	t.Helper()
	const events = 3
	list := make([]eventstore.Proposed, events)
	for i := range list {
		list[i] = eventstore.Proposed{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte("{}")}
	}
	must.Get(store.Append(t.Context(), "thing-1", eventstore.NoStream, list))(t)
	read := 0
	for _, err := range store.Read(t.Context(), "thing-1", 0) {
		must.True(t, err == nil, "after %d events: %v", read, err)
		read++
		time.Sleep(time.Minute) // the clock of the bubble
	}
	assert.Equal(t, read, events, "events were read")
}

// Without a leader, callers get an error soon; with a new leader it goes on, and an append that was recorded without an
// answer is not recorded twice.
func TestElection_outlasted(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		strict, listener := &stricttest.Strict{}, newPipes()
		listener.url = "esdb+discover://127.0.0.1:2113?tls=false"
		through(t, listener, strict, slog.New(slog.DiscardHandler), func(store *esdb.Store) { outlasts(t, strict, store) })
	})
}

func outlasts(t *testing.T, strict *stricttest.Strict, store *esdb.Store) {
	t.Helper()
	id := uuid.New()
	must.OK(t, add(t.Context(), store, id))
	strict.LoseLeader(2 * time.Second)
	must.OK(t, add(t.Context(), store, id))
	strict.LoseAnswers(1)
	must.OK(t, add(t.Context(), store, id))
	assert.Equal(t, must.Get(counter.Load(t.Context(), store, id))(t).State, 3, "State")
	strict.LoseLeader(time.Hour)
	err := add(t.Context(), store, id)
	assert.Is(t, err, eventstore.ErrUnavailable, "error")
}
