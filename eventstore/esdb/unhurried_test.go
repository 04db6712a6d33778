package esdb_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
)

// here is a store on a node in this process.
func here(t *testing.T) *esdb.Store {
	t.Helper()
	return hereBy(t, func(conn esdb.Connection) esdb.Connection { return conn })
}

// hereBy is a store on a node in this process, through a connection that is put before it.
func hereBy(t *testing.T, through func(esdb.Connection) esdb.Connection) *esdb.Store {
	t.Helper()
	n, err := node.Open(node.Config{Dir: "store", FS: vfs.NewMem(), Strict: nodetest.Strict()})
	if err != nil {
		t.Fatal(err)
	}
	store, err := esdb.OpenHere(func(codec encoding.CodecV2) esdb.Connection { return through(n.Connect(codec)) }, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(store.Close(), n.Close()); err != nil {
			t.Error(err)
		}
	})
	return store
}

// appendOne appends an event to a stream of its own. The channel tells where it is.
func appendOne(t *testing.T, ctx context.Context, store eventstore.Store) <-chan eventstore.Position {
	t.Helper()
	at := make(chan eventstore.Position, 1)
	go func() {
		defer close(at)
		appended, err := store.Append(ctx, eventstore.StreamName("thing", uuid.New()), eventstore.NoStream,
			[]eventstore.Proposed{{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte("{}"), Metadata: []byte("{}")}})
		if err != nil {
			t.Error(err)
			return
		}
		at <- appended.Position
	}()
	return at
}

// silent is a connection to a server that takes appends and answers none of them. It counts them.
type silent struct {
	ctx   context.Context // ends with the connection
	close context.CancelFunc
	mu    sync.Mutex
	sent  int
}

func (c *silent) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sent
}

func (*silent) Invoke(_ context.Context, _ string, _, response any, _ ...grpc.CallOption) error {
	methods, ok := response.(*serverfeatures.SupportedMethods)
	if !ok {
		return status.Error(codes.Unimplemented, "only what can be done is told")
	}
	methods.Methods = []*serverfeatures.SupportedMethod{{MethodName: "batchappend", ServiceName: "event_store.client.streams.streams"}}
	return nil
}

func (c *silent) NewStream(ctx context.Context, _ *grpc.StreamDesc, _ string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, cancel := context.WithCancel(ctx)
	context.AfterFunc(c.ctx, cancel) //nolint:contextcheck // it ends with its connection as well
	return &silentCall{conn: c, ctx: ctx}, nil
}

func (*silent) GetState() connectivity.State { return connectivity.Ready }

func (c *silent) WaitForStateChange(ctx context.Context, _ connectivity.State) bool {
	select {
	case <-ctx.Done():
		return false
	case <-c.ctx.Done():
		return true
	}
}

func (c *silent) Close() error {
	c.close()
	return nil
}

type silentCall struct {
	grpc.ClientStream

	conn *silent
	ctx  context.Context
}

func (s *silentCall) Context() context.Context { return s.ctx }

func (*silentCall) Trailer() metadata.MD { return nil }

func (s *silentCall) SendMsg(any) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.conn.sent++
	return nil
}

func (s *silentCall) RecvMsg(any) error {
	<-s.ctx.Done()
	return status.FromContextError(s.ctx.Err()).Err()
}

func TestAnAppendInNoHurryGoesAlongWithTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		conn := &silent{}
		conn.ctx, conn.close = context.WithCancel(t.Context())
		store, err := esdb.OpenHere(func(encoding.CodecV2) esdb.Connection { return conn }, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var appending sync.WaitGroup
		appends := func(ctx context.Context) {
			appending.Go(func() {
				_, _ = store.Append(ctx, "thing-1", eventstore.NoStream, []eventstore.Proposed{{ID: uuid.New(), Type: "t"}}) // unanswered
			})
			synctest.Wait() // until nothing more happens before time passes
		}
		sent := func(want int, when string) {
			t.Helper()
			if got := conn.count(); got != want {
				t.Errorf("%s: %d were sent, want %d", when, got, want)
			}
		}
		const wait = 25 * time.Millisecond
		unhurried := eventstore.Unhurried(ctx, wait)
		appends(unhurried)
		sent(0, "it waits")
		appends(ctx)
		sent(2, "another came")
		appends(unhurried)
		time.Sleep(wait - time.Nanosecond)
		appends(unhurried)
		sent(2, "just before its time is over")
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		sent(4, "its time is over, and with it the other's")
		for range 15 {
			appends(unhurried)
		}
		sent(4, "fifteen wait")
		appends(unhurried)
		sent(20, "sixteen are enough")
		appends(unhurried)
		time.Sleep(wait)
		synctest.Wait()
		sent(21, "a new one has its own time")
		cancel()
		appending.Wait()
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestAnAppendInNoHurryGoesAloneWhenNoneComes(t *testing.T) {
	t.Parallel()
	if _, ok := <-appendOne(t, eventstore.Unhurried(t.Context(), time.Millisecond), here(t)); !ok {
		t.Error("it was not recorded")
	}
}

// prompt is a connection whose calls fail as soon as their context has ended, as those over a network do.
type prompt struct{ esdb.Connection }

func (p prompt) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	call, err := p.Connection.NewStream(ctx, desc, method, opts...)
	return promptCall{ClientStream: call, ctx: ctx}, err
}

type promptCall struct {
	grpc.ClientStream

	ctx context.Context
}

func (c promptCall) RecvMsg(message any) error {
	if c.ctx.Err() != nil {
		return status.FromContextError(c.ctx.Err()).Err()
	}
	return c.ClientStream.RecvMsg(message)
}

// TestSlowReaderIsNoSlowStore: the time that a caller takes for what it reads is no time that the store takes.
func TestSlowReaderIsNoSlowStore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := hereBy(t, func(conn esdb.Connection) esdb.Connection { return prompt{conn} })
		stream := eventstore.StreamName("thing", uuid.New())
		const events = 3
		list := make([]eventstore.Proposed, events)
		for i := range list {
			list[i] = eventstore.Proposed{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte("{}"), Metadata: []byte("{}")}
		}
		if _, err := store.Append(t.Context(), stream, eventstore.NoStream, list); err != nil {
			t.Fatal(err)
		}
		read := 0
		for _, err := range store.Read(t.Context(), stream, 0) {
			if err != nil {
				t.Fatalf("after %d events: %v", read, err)
			}
			read++
			time.Sleep(time.Minute) // the clock of the bubble
		}
		if read != events {
			t.Errorf("%d events were read, want %d", read, events)
		}
	})
}
