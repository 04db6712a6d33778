// Package esdb implements eventstore.Store on an EventStoreDB, by the protocol of the official client: its messages and
// its connection strings. The connection is the package's own, because the client loses itself when the cluster changes
// its leader (docs/decide/0015-own-connection.md). It is the only importer of the client.
//
//	Store ──one connection, to the leader──▶ BatchAppend: all appends   (Append where a server has none)
//	                                     └─▶ Read: streams, the log, subscriptions
//
// Who leads is found out by gossip, by the answer "not the leader", and by asking others when an answer is late.
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

	"carillon/eventstore"
)

const (
	callTimeout    = 30 * time.Second // of one append or one read from start to end: a busy server is waited for
	searchPatience = 2 * time.Second  // of a call, while no leader is found
	searchPause    = 100 * time.Millisecond
	probeTimeout   = 2 * time.Second // of the first call to a member,
	onlyTimeout    = 5 * time.Second // and where there is one server only, which may be busy
	gossipTimeout  = time.Second
	gossipGrace    = 50 * time.Millisecond // for further answers, after the first one that names a leader
	lateAfter      = 2 * time.Second       // without an answer the others are asked who leads,
	lateAgain      = 500 * time.Millisecond
	closeGrace     = 2 * time.Second
)

// Store talks to one EventStoreDB, single node or cluster. It is safe for concurrent use.
type Store struct {
	settings settings
	tls      *tls.Config // nil: in plain
	log      *slog.Logger
	ctx      context.Context // ends with Close, and every call with it
	cancel   context.CancelFunc
	calls    sync.WaitGroup

	mu      sync.Mutex
	closed  bool
	link    *link     // nil while there is none
	search  *search   // in progress, if any
	failed  time.Time // when the last search did
	members []string  // of the cluster, as gossip or a server has named them

	several      atomic.Bool // there are others to ask who leads
	resubscribed atomic.Uint64
	heard        atomic.Uint64 // answers and events
}

var _ eventstore.Store = (*Store)(nil)

// Open makes a store of an "esdb://" connection string. It does not connect yet: the first call does. The string's
// credentials are never logged.
func Open(url string, log *slog.Logger) (*Store, error) {
	settings, err := parse(url)
	if err != nil {
		return nil, fmt.Errorf("the event store's connection string: %w", err)
	}
	return open(settings, log)
}

// OpenUnix makes a store that reaches an embedded node through its unix socket.
func OpenUnix(socket string, log *slog.Logger) (*Store, error) {
	settings, err := parse("esdb://localhost:2113?tls=false")
	if err != nil {
		return nil, err
	}
	settings.seeds = []string{"unix:///" + strings.TrimPrefix(socket, "/")}
	return open(settings, log)
}

func open(settings settings, log *slog.Logger) (*Store, error) {
	security, err := settings.security()
	if err != nil {
		return nil, fmt.Errorf("the event store's connection string: %w", err)
	}
	s := &Store{settings: settings, tls: security, log: log}
	s.several.Store(settings.discover)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends every call and subscription, waits for them, and closes the connection.
func (s *Store) Close() error {
	s.mu.Lock()
	present, again := s.link, s.closed
	s.closed = true
	s.mu.Unlock()
	if again {
		return nil
	}
	s.cancel()
	if present != nil {
		s.drop(present)
	}
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(closeGrace): // somebody still looks at what he has read
	}
	return nil
}

// Resubscribed counts how often a server has dropped a subscription because a burst was too much for it. Each went on
// from where it was.
func (s *Store) Resubscribed() uint64 { return s.resubscribed.Load() }

// Heard counts what servers have answered and sent. A connection on which it stands still may be dead.
func (s *Store) Heard() uint64 { return s.heard.Load() }

// Reconnect gives up the connection, if there is one. Calls on it go on through a new one.
func (s *Store) Reconnect() {
	s.mu.Lock()
	present := s.link
	s.mu.Unlock()
	if present != nil {
		s.drop(present)
	}
}

// begin registers a call, whose context ends with the store too, and after a time where one is given.
func (s *Store) begin(ctx context.Context, within time.Duration) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, errClosed()
	}
	s.calls.Add(1)
	var cancel context.CancelFunc
	if within > 0 {
		ctx, cancel = context.WithTimeout(ctx, within)
	} else {
		ctx, cancel = context.WithCancel(ctx)
	}
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel(); s.calls.Done() }, nil
}
