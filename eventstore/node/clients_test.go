package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"

	"carillon/eventstore/node"
)

// Clients may leave any number of appends unfinished; an append past its deadline is answered, and costs the others
// nothing.
func TestUnfinishedBatches(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	call, err := streams.NewStreamsClient(rawConnection(t, s)).BatchAppend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const many = 300
	for i := range many {
		options := noStream(fmt.Sprintf("s-%d", i))
		if i == 0 {
			options.DeadlineOption = &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(time.Millisecond)}
		}
		if err := call.Send(&streams.BatchAppendReq{
			CorrelationId: batchID(int64(i)), Options: options, ProposedMessages: batchEvents(1, 10),
		}); err != nil {
			t.Fatal(err)
		}
	}
	late, err := call.Recv()
	if err != nil {
		t.Fatal(err)
	}
	if detail := late.GetError().GetDetails(); len(detail) != 1 || !detail[0].MessageIs(&shared.Timeout{}) ||
		late.GetCorrelationId().String() != batchID(0).String() {
		t.Errorf("the late one: %+v", late)
	}
	for i := range many {
		if err := call.Send(&streams.BatchAppendReq{
			CorrelationId: batchID(int64(i)), ProposedMessages: batchEvents(1, 10), IsFinal: true,
		}); err != nil {
			t.Fatal(err)
		}
	}
	if err := call.CloseSend(); err != nil {
		t.Fatal(err)
	}
	answers := 0
	for {
		answer, err := call.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if answers++; answer.GetSuccess() == nil {
			t.Errorf("%+v", answer)
		}
	}
	if answers != many-1 {
		t.Errorf("%d answers", answers)
	}
	client := s.client(t)
	if list, err := readStream(client, "s-1", esdb.ReadStreamOptions{From: esdb.Start{}}, 10); err != nil ||
		len(list) != 2 {
		t.Errorf("%d events, %v", len(list), err)
	}
	if _, err := readStream(client, "s-0", esdb.ReadStreamOptions{From: esdb.Start{}},
		10); code(err) != esdb.ErrorCodeResourceNotFound {
		t.Errorf("the late one was written: %v", err)
	}
}

// frozen is a connection whose peer stops reading and writing, without closing it.
type frozen struct {
	net.Conn
	thaw chan struct{}
	stop chan struct{}
}

func (f *frozen) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	select {
	case <-f.stop:
		<-f.thaw
	default:
	}
	return n, err
}

func (f *frozen) Write(p []byte) (int, error) {
	select {
	case <-f.stop:
		<-f.thaw
	default:
	}
	return f.Conn.Write(p)
}

// A subscriber that is frozen does not hold its call for hours.
func TestFrozenSubscriberIsDropped(t *testing.T) {
	t.Parallel()
	if node.KeepaliveEvery != 10*time.Second {
		t.Errorf("a node asks every %v", node.KeepaliveEvery)
	}
	s := serve(t, node.WithKeepalive(node.Config{}, time.Second))
	ice := &frozen{thaw: make(chan struct{}), stop: make(chan struct{})}
	connection, err := grpc.NewClient("passthrough:///frozen", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
			ice.Conn = conn
			return ice, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		close(ice.thaw) // or closing waits for it
		_ = connection.Close()
	}()
	call, err := streams.NewStreamsClient(connection).Read(t.Context(), subscription("s"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := call.Recv(); err != nil { // the confirmation
		t.Fatal(err)
	}
	if n := s.OpenReads(); n != 1 {
		t.Errorf("%d subscriptions", n)
	}
	close(ice.stop)
	eventually(t, "the subscription is dropped", func() bool { return s.OpenReads() == 0 })
}

func TestNamesThatAreNotUTF8AreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	client := s.client(t)
	if _, err := client.AppendToStream(t.Context(), "bad\xff", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}},
		events(1)...); err == nil ||
		!strings.Contains(err.Error(), "UTF-8") {
		t.Errorf("as a stream's name: %v", err)
	}
	if list := readAll(t, client, esdb.ReadAllOptions{From: esdb.Start{}}, 10); len(list) != 0 {
		t.Errorf("%d events", len(list))
	}
}
