package esdb_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// cluster is nodes in the bubble of a test, and dials them.
type cluster struct {
	t       *testing.T
	members map[string]*member // by address
}

func newCluster(t *testing.T) *cluster { return &cluster{t, map[string]*member{}} }

// inCluster runs a test in a bubble: its clock stands still while a node or a client has something to do.
func inCluster(t *testing.T, test func(t *testing.T, c *cluster)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newCluster(t)) })
}

func (c *cluster) dial(ctx context.Context, address string) (net.Conn, error) {
	return c.members[address].pipes.dial(ctx, address)
}

func (c *cluster) open(url string) *esdb.Store {
	c.t.Helper()
	store := must.Get(esdb.OpenDialed(url, c.dial, slog.New(slog.DiscardHandler)))(c.t)
	c.t.Cleanup(func() { _ = store.Close() })
	return store
}

// member is a node whose connections the test can count, and freeze.
type member struct {
	*stricttest.Strict
	address string
	pipes   *pipes

	frozen atomic.Bool

	mu    sync.Mutex
	conns map[net.Conn]struct{}
}

// start starts one more member. Each leads until it follows another one.
func (c *cluster) start() *member {
	c.t.Helper()
	address := fmt.Sprintf("127.0.0.1:%d", 2113+len(c.members))
	m := &member{
		Strict:  &stricttest.Strict{},
		address: address,
		pipes:   newPipes(),
		conns:   map[net.Conn]struct{}{},
	}
	c.members[address] = m
	n := must.Get(node.Open(node.Config{
		Dir:       "store",
		FS:        vfs.NewMem(),
		Quirks:    m.Strict,
		Advertise: address,
	}))(c.t)
	served := make(chan error, 1)
	go func() { served <- n.Serve(counting{m.pipes, m}) }()
	c.t.Cleanup(func() {
		must.OK(c.t, n.Close())
		must.OK(c.t, <-served)
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

// Read drops what it reads while the member is frozen, which then answers nothing.
func (c *countedConn) Read(into []byte) (int, error) {
	for {
		n, err := c.Conn.Read(into)
		if err != nil || !c.member.frozen.Load() {
			return n, err
		}
	}
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

// A leader that has been deposed refers to its successor: later calls append and read there, and no call holds a
// connection to the old one.
func TestDeposedLeader_left(t *testing.T) {
	t.Parallel()
	for name, url := range map[string]string{
		"one address": "esdb://%s?tls=false",
		"gossip":      "esdb+discover://%s?tls=false",
		"several":     "esdb://%[1]s,%[1]s?tls=false",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inCluster(t, func(t *testing.T, c *cluster) { deposed(t, c, url) })
		})
	}
}

func deposed(t *testing.T, c *cluster, url string) {
	t.Helper()
	first, second := c.start(), c.start()
	store, id := c.open(fmt.Sprintf(url, first.address)), uuid.New()
	must.OK(t, add(t.Context(), store, id))
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
	id = uuid.New() // the second has no events of the first: they only play a cluster
	var writers sync.WaitGroup
	for range 8 {
		writers.Go(func() {
			assert.OK(t, add(t.Context(), store, uuid.New()))
		})
	}
	writers.Wait()
	must.OK(t, add(t.Context(), store, id))
	took := time.Since(changed)
	assert.True(t, took <= time.Second, "a change of the leader took %s", took)
	direct := c.open("esdb://" + second.address + "?tls=false")
	assert.Equal(t, must.Get(counter.Load(t.Context(), direct, id))(t).State, 1, "at the new leader")
	assert.Is(t, <-ended, eventstore.ErrUnavailable, "the subscription to the old one ended with")
	synctest.Wait()
	left := first.open()
	assert.True(t, left <= 0, "%d connections to the old leader are left", left)
	assert.True(t, first.Referred() != 0, "the old leader was not asked for the leader")
}

// If a leader is frozen, another member names the present leader.
func TestFrozenLeader_left(t *testing.T) {
	t.Parallel()
	inCluster(t, func(t *testing.T, c *cluster) {
		first, second, third := c.start(), c.start(), c.start()
		second.Follow(first.address)
		third.Follow(first.address)
		store := c.open(fmt.Sprintf("esdb://%s,%s,%s?tls=false", first.address, second.address, third.address))
		must.OK(t, add(t.Context(), store, uuid.New()))
		must.True(t, first.open() != 0, "the leader was not found")
		first.frozen.Store(true)
		appended := make(chan error, 1)
		began := time.Now()
		go func() { appended <- add(t.Context(), store, uuid.New()) }()
		second.Follow("")
		third.Follow(second.address)
		must.OK(t, <-appended)
		if took := time.Since(began); took > 5*time.Second { // by the old leader it would never be answered
			t.Errorf("an append was stuck for %s", took)
		}
	})
}

// A refusal that is about the stream is no reason to ask the others who leads.
func TestWrongRevision_noSearch(t *testing.T) {
	t.Parallel()
	inCluster(t, func(t *testing.T, c *cluster) {
		first, second := c.start(), c.start()
		second.Follow(first.address)
		store := c.open(fmt.Sprintf("esdb://%s,%s?tls=false", first.address, second.address))
		must.Get(store.AppendEntries(t.Context(), "thing-1", eventstore.NoStream, oneEvent()))(t)
		second.frozen.Store(true)
		began := time.Now()
		_, err := store.AppendEntries(t.Context(), "thing-1", eventstore.NoStream, oneEvent())
		took := time.Since(began)
		assert.True(t, errors.Is(err, eventstore.ErrWrongRevision) && took <= 0, "%v after %s", err, took)
	})
}
