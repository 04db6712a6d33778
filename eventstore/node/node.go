package node

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"

	"carillon/eventstore/node/embedded"
	"carillon/eventstore/node/internal/guard"
	"carillon/eventstore/node/internal/quirks"
	"carillon/eventstore/node/internal/store"
)

// Config configures a node. Only Dir is required.
type Config struct {
	// Dir is the directory of all data; it is created if it is missing.
	Dir string
	// Logger hears about the node's own troubles; nil is silent.
	Logger *slog.Logger
	// Now returns the time for new events and their age; time.Now if nil.
	Now func() time.Time
	// FS is the file system below the database. Optional. Default: the operating system's.
	FS vfs.FS
	// TLS, where set, is what Serve speaks. Unix sockets are always in plain.
	TLS *tls.Config
	// User and Password, where set, must accompany every call but the one that asks for the server's features.
	User, Password string
	// GuessDelay is after how long the first wrong password is answered, and doubles with more; 0 means 250 ms.
	GuessDelay time.Duration
	// Advertise is the host and port that Gossip names; the listener's where empty.
	Advertise string
	// CacheBytes and MemTableBytes bound the memory of the database; 0 is a good default for both.
	CacheBytes    int64
	MemTableBytes int
	// MinFreeBytes is the disk space below which writes are refused; 0 means 64 MiB.
	MinFreeBytes uint64
	// ReadOnly leaves the directory, which must hold data, unchanged: reads and subscriptions work, all else is refused.
	ReadOnly bool
	// Quirks are those of other servers. Optional, for tests: see package stricttest.
	Quirks quirks.Quirks

	keepalive time.Duration // keepaliveEvery, but in tests
}

// Node is a running event store. Open makes one.
type Node struct {
	config Config
	log    *slog.Logger
	store  *store.Store
	id     uuid.UUID // of this run

	embedded *embedded.Store

	metrics metrics
	logins  *guard.LoginLimiter
	shared  atomic.Bool // it can be reached by others than its user

	mu        sync.Mutex
	servers   []func() // each stops one
	address   net.Addr
	closed    bool
	closeOnce sync.Once
	closeErr  error
}

const (
	// maxHeaderBytes and maxStreams, of a connection, bound what a caller costs before its credentials are known.
	maxHeaderBytes = 64 << 10
	maxStreams     = 10_000
	// clientPings is how often clients may ask whether the connection is alive. They do every 10 s, some every second.
	clientPings = 500 * time.Millisecond
	// keepaliveEvery is how long a connection may be silent before the node sends a ping, and then waits for its answer: a
	// frozen client keeps its calls open for twice as long at most.
	keepaliveEvery = 10 * time.Second
	// streamWindow and connWindow let a client send a whole append without waiting for the node.
	streamWindow  = 1 << 20
	connWindow    = 4 << 20
	socketBuffer  = 64 << 10
	streamWorkers = 64
	closeGrace    = 5 * time.Second
)

// Open opens the node's data, or creates it. Serve makes it reachable. Opening takes well under a second, whatever
// the amount of data.
func Open(config Config) (*Node, error) {
	if config.Dir == "" {
		return nil, errors.New("open node: no directory")
	}
	if (config.User == "") != (config.Password == "") {
		return nil, errors.New("open node: a user needs a password and the other way round")
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	if config.Now == nil {
		config.Now = time.Now
	}
	if config.Quirks == nil {
		config.Quirks = quirks.None{}
	}
	if config.keepalive == 0 {
		config.keepalive = keepaliveEvery
	}
	opened, err := store.Open(config.storeOptions())
	if err != nil {
		return nil, fmt.Errorf("open node: %w", err)
	}
	n := &Node{
		config: config,
		log:    config.Logger,
		store:  opened,
		id:     uuid.New(),
		logins: guard.New(config.Logger, cmp.Or(config.GuessDelay, guard.FirstDelay)),
	}
	n.metrics = newMetrics(n)
	n.embedded = embedded.New(opened)
	n.servers = append(n.servers, n.embedded.Close)
	return n, nil
}

func (c Config) storeOptions() store.Options {
	return store.Options{
		Dir:           c.Dir,
		FS:            c.FS,
		Now:           c.Now,
		Logger:        c.Logger,
		CacheBytes:    c.CacheBytes,
		MemTableBytes: c.MemTableBytes,
		MinFreeBytes:  c.MinFreeBytes,
		ReadOnly:      c.ReadOnly,
		MustExist:     c.ReadOnly,
		Original:      c.Quirks != nil && c.Quirks.Any(),
	}
}

// Serve answers calls on a listener until Close, which makes it return nil. It may be called for several listeners. On
// all but unix sockets it speaks HTTP beside gRPC.
func (n *Node) Serve(listener net.Listener) error {
	server := n.newServer()
	if listener.Addr().Network() == "unix" {
		return n.serve(server, listener, func() { stop(server) })
	}
	split := newSplitter(listener, n.config.TLS)
	beside := n.newServer() // for gRPC over connections of the other; those can't be let run out
	web := n.webServer(beside)
	served := make(chan error, 2)
	go func() { served <- web.Serve(split.web) }()
	go func() {
		split.run()
		served <- nil
	}()
	err := n.serve(server, split.rpc, func() {
		_ = listener.Close()
		var stopping sync.WaitGroup
		stopping.Go(func() { stop(server) })
		stopping.Go(func() {
			stopWeb(web)
			beside.Stop()
		})
		stopping.Wait()
	})
	err = errors.Join(err, ignoreClosed(listener.Close()))
	_ = web.Close()
	<-served
	<-served
	return err
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// Store returns the event store for this process, without a connection. Close closes it.
func (n *Node) Store() *embedded.Store { return n.embedded }

func (n *Node) newServer() *grpc.Server {
	server := grpc.NewServer(n.serverOptions()...)
	n.register(asStreams{server})
	return server
}

func (n *Node) serve(server *grpc.Server, listener net.Listener, stop func()) error {
	if err := n.addServer(stop, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if err := server.Serve(listener); err != nil && !errors.Is(err, grpc.ErrServerStopped) &&
		!errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("serve %s: %w", listener.Addr(), err)
	}
	return nil
}

// ListenUnix serves a unix socket that only the present user can reach. A socket left over from a process that died
// is replaced. The path may have at most 107 bytes.
func (n *Node) ListenUnix(path string) error {
	listener, err := listenUnix(path)
	if err != nil {
		return err
	}
	return n.Serve(listener)
}

func listenUnix(path string) (net.Listener, error) {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("replace socket: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen: %w", err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return nil, errors.Join(fmt.Errorf("protect socket: %w", err), listener.Close())
	}
	return listener, nil
}

func (n *Node) serverOptions() []grpc.ServerOption {
	return []grpc.ServerOption{
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: n.config.keepalive, Timeout: n.config.keepalive}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: clientPings, PermitWithoutStream: true}),
		grpc.MaxRecvMsgSize(store.MaxRequestBytes),
		grpc.MaxHeaderListSize(maxHeaderBytes),
		grpc.MaxConcurrentStreams(maxStreams),
		grpc.InitialWindowSize(streamWindow),
		grpc.InitialConnWindowSize(connWindow),
		grpc.WriteBufferSize(socketBuffer),
		grpc.ReadBufferSize(socketBuffer),
		grpc.NumStreamWorkers(streamWorkers),
		grpc.WaitForHandlers(true),
		grpc.ChainStreamInterceptor(n.checkStream),
	}
}

func (n *Node) addServer(stop func(), address net.Addr) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.closed {
		return fmt.Errorf("serve: node: %w", net.ErrClosed)
	}
	n.servers = append(n.servers, stop)
	if address.Network() != "unix" {
		n.shared.Store(true)
	}
	if n.address == nil || n.address.Network() == "unix" {
		n.address = address
	}
	return nil
}

// Failed is closed when storage has failed in a way that leaves the node unable to promise anything. The process should
// end; opening the data again shows its content.
func (n *Node) Failed() <-chan struct{} { return n.store.Failed() }

// Err is why the node has failed; nil unless Failed is closed.
func (n *Node) Err() error { return n.store.Err() }

// Full reports whether the disk has too little room: appends are then refused, until there is some again. It looks at
// the disk a few times a second at most, and may be called as often as wanted.
func (n *Node) Full() bool { return n.store.Full() }

// Close ends subscriptions, lets running calls finish for a short while, and closes the data.
func (n *Node) Close() error {
	n.closeOnce.Do(func() { n.closeErr = n.close() })
	return n.closeErr
}

func (n *Node) close() error {
	n.mu.Lock()
	n.closed = true
	servers := n.servers
	n.mu.Unlock()
	n.store.BeginClose()
	var stopping sync.WaitGroup
	for _, stop := range servers {
		stopping.Go(stop)
	}
	stopping.Wait()
	return n.store.Close()
}

// stop waits for the calls that are in progress, but not for ever.
func stop(server *grpc.Server) {
	done := make(chan struct{})
	go func() {
		server.GracefulStop()
		close(done)
	}()
	grace := time.NewTimer(closeGrace)
	defer grace.Stop()
	select {
	case <-done:
	case <-grace.C:
		server.Stop() // also ends GracefulStop, and returns after the handlers have
		<-done
	}
}
