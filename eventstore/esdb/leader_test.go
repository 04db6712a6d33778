package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
)

// member is a node on TCP whose connections the test can count, and freeze.
type member struct {
	*stricttest.Strict
	address string

	mu     sync.Mutex
	conns  map[net.Conn]struct{}
	frozen chan struct{} // closed when what it says is to be passed on; nil as long as it is
}

func startMember(t *testing.T) *member {
	t.Helper()
	m := &member{Strict: &stricttest.Strict{}, conns: map[net.Conn]struct{}{}}
	n, err := node.Open(node.Config{Dir: "store", FS: vfs.NewMem(), Quirks: m.Strict})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	m.address = listener.Addr().String()
	served := make(chan error, 1)
	go func() { served <- n.Serve(counting{listener, m}) }()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return m
}

type counting struct {
	net.Listener
	member *member
}

func (l counting) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	counted := &countedConn{Conn: conn, member: l.member}
	l.member.mu.Lock()
	defer l.member.mu.Unlock()
	l.member.conns[counted] = struct{}{}
	return counted, nil
}

type countedConn struct {
	net.Conn
	member *member
}

// Read waits while the member is frozen: then it takes nothing in and so says nothing.
func (c *countedConn) Read(into []byte) (int, error) {
	n, err := c.Conn.Read(into)
	c.member.mu.Lock()
	frozen := c.member.frozen
	c.member.mu.Unlock()
	if frozen != nil {
		<-frozen
	}
	return n, err
}

func (c *countedConn) Close() error {
	c.member.mu.Lock()
	delete(c.member.conns, c)
	c.member.mu.Unlock()
	return c.Conn.Close()
}

func (m *member) open() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.conns)
}

func (m *member) freeze(t *testing.T) {
	t.Helper()
	thaw := make(chan struct{})
	m.mu.Lock()
	m.frozen = thaw
	m.mu.Unlock()
	t.Cleanup(func() {
		m.mu.Lock()
		m.frozen = nil
		m.mu.Unlock()
		close(thaw)
	})
}

func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !holds(); {
		if time.Now().After(deadline) {
			t.Fatal("never came: " + what)
		}
		select {
		case <-t.Context().Done():
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func openAt(t *testing.T, url string) *esdb.Store {
	t.Helper()
	store, err := esdb.Open(url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	return store
}

// counter counts the commands that it was given.
var counter = eventstore.Aggregate[int, struct{}, struct{}]{
	Category: "counter",
	Codec:    eventstore.NewCodec(eventstore.Case[struct{}, struct{}]("counter.counted.v1")),
	Evolve:   func(sum int, _ struct{}) int { return sum + 1 },
	Decide:   func(int, struct{}) ([]struct{}, error) { return []struct{}{{}}, nil },
}

func add(ctx context.Context, store eventstore.Store, id uuid.UUID) error {
	metadata := eventstore.Metadata{Actor: "test", Organization: uuid.New()}
	_, err := counter.Execute(ctx, store, id, struct{}{}, eventstore.Options[int]{Metadata: metadata})
	return err
}

// A leader that has been deposed refers to its successor: what comes is appended and read there, and nothing is left
// that holds a connection to the old one.
func TestADeposedLeaderIsLeft(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{"one address": "esdb://%s?tls=false", "gossip": "esdb+discover://%s?tls=false", "several": "esdb://%[1]s,%[1]s?tls=false"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, second := startMember(t), startMember(t)
			store, id := openAt(t, fmt.Sprintf(url, first.address)), uuid.New()
			if err := add(t.Context(), store, id); err != nil {
				t.Fatal(err)
			}
			began, ended := make(chan struct{}), make(chan error, 1)
			go func() {
				begin := sync.OnceFunc(func() { close(began) })
				defer begin()
				for _, err := range store.Subscribe(t.Context(), eventstore.Start, eventstore.Filter{}) {
					if err != nil {
						ended <- err
						return
					}
					begin()
				}
			}()
			<-began // at the old leader: one that begins later follows the new one from its start
			first.Follow(second.address)
			changed := time.Now()
			id = uuid.New() // the second has nothing of what the first has: they only play a cluster
			var writers sync.WaitGroup
			for range 8 {
				writers.Go(func() {
					if err := add(t.Context(), store, uuid.New()); err != nil {
						t.Error(err)
					}
				})
			}
			writers.Wait()
			if err := add(t.Context(), store, id); err != nil {
				t.Fatal(err)
			}
			t.Logf("a change of the leader took %s", time.Since(changed))
			direct := openAt(t, "esdb://"+second.address+"?tls=false")
			if loaded, err := counter.Load(t.Context(), direct, id); err != nil || loaded.State != 1 {
				t.Errorf("at the new leader: %+v, %v", loaded, err)
			}
			if err := <-ended; !errors.Is(err, eventstore.ErrUnavailable) {
				t.Errorf("the subscription to the old one ended with %v", err)
			}
			eventually(t, "no connection to the old leader is left", func() bool { return first.open() == 0 })
			if first.Referred() == 0 {
				t.Error("nobody asked the old leader for the leader")
			}
		})
	}
}

// Where a leader is frozen, another member says who leads now.
func TestAFrozenLeaderIsLeft(t *testing.T) {
	t.Parallel()
	first, second, third := startMember(t), startMember(t), startMember(t)
	second.Follow(first.address)
	third.Follow(first.address)
	store := openAt(t, fmt.Sprintf("esdb://%s,%s,%s?tls=false", first.address, second.address, third.address))
	if err := add(t.Context(), store, uuid.New()); err != nil {
		t.Fatal(err)
	}
	if first.open() == 0 {
		t.Fatal("the leader was not found")
	}
	first.freeze(t)
	appended := make(chan error, 1)
	began := time.Now()
	go func() { appended <- add(t.Context(), store, uuid.New()) }()
	second.Follow("")
	third.Follow(second.address)
	if err := <-appended; err != nil {
		t.Fatal(err)
	}
	t.Logf("an append was stuck for %s", time.Since(began)) // by the old leader it would never be answered
}
