// Package esdb implements eventstore.Store on the official EventStoreDB client. It is the only importer of that client
// and works around what it gets wrong: calls that outlive their context, a client that dies for good after an outage
// of a second, and a panic when it is closed during a call.
package esdb

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"carillon/eventstore"
)

const (
	callTimeout      = 30 * time.Second // of one append or one read from start to end: a busy server is waited for
	searchPatience   = 2 * time.Second  // of a call, while the client finds no server
	searchInterval   = 250 * time.Millisecond
	discoverForever  = 1_000_000 // the client gives up for good after 10 attempts by default
	discoverInterval = 100       // milliseconds
	closeGrace       = 2 * time.Second
)

// Store talks to one EventStoreDB, single node or cluster. It is safe for concurrent use.
type Store struct {
	client *esdb.Client
	ctx    context.Context // ends with Close, and every call with it
	cancel context.CancelFunc

	mu     sync.Mutex
	closed bool
	calls  sync.WaitGroup
	work   chan func() // to idle goroutines, see run
	idle   atomic.Int32

	trouble atomic.Pointer[trouble] // the last one
}

// trouble is what kept the client from a connection. The client goes on trying and tells nobody, though a certificate
// that nobody trusts won't change.
type trouble struct {
	at      time.Time
	message string
}

var _ eventstore.Store = (*Store)(nil)

// Open makes a store of an "esdb://" connection string. It does not connect yet: the first call does. The string's
// credentials are never logged.
func Open(url string, log *slog.Logger) (*Store, error) {
	cfg, err := esdb.ParseConnectionString(url)
	var file *fs.PathError
	if errors.As(err, &file) {
		return nil, fmt.Errorf("the event store's connection string: %w", file)
	}
	if err != nil {
		return nil, errors.New("the event store's connection string is not of the form esdb://[user:password@]host:port[,host:port]?tls=true")
	}
	return open(cfg, log)
}

// OpenUnix makes a store that reaches an embedded node through its unix socket.
func OpenUnix(socket string, log *slog.Logger) (*Store, error) {
	cfg, err := esdb.ParseConnectionString("esdb://localhost:2113?tls=false")
	if err != nil {
		return nil, fmt.Errorf("event store client: %w", err)
	}
	cfg.Address = "unix:///" + strings.TrimPrefix(socket, "/")
	return open(cfg, log)
}

func open(cfg *esdb.Configuration, log *slog.Logger) (*Store, error) {
	cfg.MaxDiscoverAttempts = discoverForever
	cfg.DiscoveryInterval = discoverInterval
	timeout := callTimeout
	cfg.DefaultDeadline = &timeout
	s := &Store{work: make(chan func())}
	cfg.Logger = func(level esdb.LogLevel, format string, args ...any) {
		// What it calls an error is mostly a conflict or a cancelled call; the caller hears of it anyway.
		if level == esdb.LogWarn || level == esdb.LogError {
			message := fmt.Sprintf(format, args...)
			log.Debug("event store client", "message", message)
			if strings.Contains(format, "candidate") { // while it looks for a server
				s.trouble.Store(&trouble{at: time.Now(), message: message})
			}
		}
	}
	client, err := esdb.NewClient(cfg)
	if err != nil {
		return nil, fmt.Errorf("event store client: %w", err)
	}
	s.client = client
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s, nil
}

// Close ends every call and subscription, waits for them, and closes the connection.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	s.mu.Unlock()
	s.cancel()
	done := make(chan struct{})
	go func() {
		s.calls.Wait()
		close(done)
	}()
	select {
	case <-done:
		return s.client.Close()
	case <-time.After(closeGrace):
		// A call hangs in discovery. Closing now would make it panic; its goroutine ends with the process.
		return nil
	}
}

// translate maps the client's errors to the program's.
func translate(err error) error {
	if err == nil {
		return nil
	}
	var clientErr *esdb.Error
	if errors.As(err, &clientErr) {
		switch clientErr.Code() {
		case esdb.ErrorCodeStreamDeleted:
			return eventstore.ErrStreamDeleted
		case esdb.ErrorCodeUnauthenticated, esdb.ErrorCodeAccessDenied:
			return fmt.Errorf("the event store refused our credentials: %w", err)
		default: // the gRPC status below says more
		}
	}
	switch grpcCode(err) {
	case codes.InvalidArgument:
		if strings.Contains(strings.ToLower(err.Error()), "exceed") { // "Maximum Append Size of … Exceeded"
			return fmt.Errorf("%w: %w", eventstore.ErrTooLarge, err)
		}
		return err
	case codes.Unimplemented, codes.Unauthenticated, codes.PermissionDenied:
		return err
	default:
		return fmt.Errorf("%w: %w", eventstore.ErrUnavailable, err)
	}
}

func grpcCode(err error) codes.Code {
	var withStatus interface{ GRPCStatus() *status.Status }
	if errors.As(err, &withStatus) {
		return withStatus.GRPCStatus().Code()
	}
	return codes.Unknown
}
