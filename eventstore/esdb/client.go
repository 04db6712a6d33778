// Package esdb implements eventstore.Store on an EventStoreDB, by the protocol of the official client: its messages and
// its connection strings. The connection is the package's own, because the client loses itself when the cluster changes
// its leader (docs/decide/0015-own-connection.md). It is the only importer of the client.
//
//	Store ──one connection, to the leader──▶ BatchAppend: all appends   (Append if a server has none)
//	                                     └─▶ Read: streams, the log, subscriptions
//
// The leader is found by gossip, by the answer "not the leader", and by asking others when an answer is late.
package esdb

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/singleflight"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

const (
	callTimeout   = 30 * time.Second // for one answer: a busy server is waited for
	searchTimeout = 2 * time.Second  // of a call, if no leader is found
	searchPause   = 100 * time.Millisecond
	retryPause    = 250 * time.Millisecond // of a patient store
	probeTimeout  = 2 * time.Second        // for the first answer of a member,
	onlyTimeout   = 5 * time.Second        // and of the only server, which may be busy
	gossipTimeout = time.Second
	gossipGrace   = 50 * time.Millisecond // for further answers, after the first one that names a leader
	lateAfter     = 2 * time.Second       // without an answer the others are asked who leads,
	lateAgain     = 500 * time.Millisecond
	closeGrace    = 2 * time.Second
)

// Store calls one EventStoreDB, single node or cluster. It is safe for concurrent use.
type Store struct {
	*connection

	patience time.Duration // with a server that does not answer
}

// connection is shared by a store and its patient twins.
type connection struct {
	settings settings
	tls      *tls.Config // nil means plain
	log      *slog.Logger
	ctx      context.Context // ends with Close, and every call with it
	cancel   context.CancelFunc
	calls    sync.WaitGroup
	searches singleflight.Group // for the leader, one at a time

	mu      sync.Mutex
	closed  bool
	link    *link     // nil if there is none
	failed  time.Time // when the last search did
	members []string  // named by gossip or a server, besides the seeds

	resubscribed atomic.Uint64
	heard        atomic.Uint64 // answers and events
}

var _ eventstore.Store = (*Store)(nil)

// Open returns a store for an "esdb://" connection string. The first call connects. The string's credentials are never
// logged.
func Open(url string, log *slog.Logger) (*Store, error) { return open(url, func(*settings) {}, log) }

// OpenUnix returns a store that reaches an embedded node through its unix socket.
func OpenUnix(socket string, log *slog.Logger) (*Store, error) {
	return open("esdb://localhost?tls=false", func(s *settings) {
		s.seeds = []string{"unix:///" + strings.TrimPrefix(socket, "/")}
	}, log)
}

func open(url string, change func(*settings), log *slog.Logger) (*Store, error) {
	settings, security, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("the event store's connection string: %w", err)
	}
	change(&settings)
	c := &connection{settings: settings, tls: security, log: log}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return &Store{connection: c}, nil
}

// Patient returns the store with calls that are repeated for a time if it can't be reached, or has no leader. The time
// begins again with each answer. Both share the connection, and are closed with it.
func (s *Store) Patient(patience time.Duration) *Store { return &Store{s.connection, patience} }

// Close ends every call and subscription, waits for them, and closes the connection.
func (s *connection) Close() error {
	s.mu.Lock()
	again := s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	s.cancel()
	s.Reconnect()
	done := make(chan struct{})
	go panics.Func(part, func() {
		s.calls.Wait()
		close(done)
	})()
	select {
	case <-done:
	case <-time.After(closeGrace): // a caller still looks at what it has read
	}
	return nil
}

// Resubscribed counts how often a server has dropped a subscription because of a burst. Each continued after the last
// event.
func (s *connection) Resubscribed() uint64 { return s.resubscribed.Load() }

// Heard counts what servers have answered and sent. A connection on which it stands still may be dead.
func (s *connection) Heard() uint64 { return s.heard.Load() }

// Reconnect closes the connection, if there is one. Calls on it continue through a new one.
func (s *connection) Reconnect() {
	s.mu.Lock()
	current := s.link
	s.mu.Unlock()
	if current != nil {
		s.drop(current)
	}
}

// begin registers a call, whose context ends with the store too.
func (s *connection) begin(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed()
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel(); s.calls.Done() }, nil
}
