package node_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Clients may leave any number of appends unfinished; an append past its deadline is answered, and costs the others
// nothing.
func TestUnfinishedBatches(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	call := must.Get(streams.NewStreamsClient(rawConnection(t, s)).BatchAppend(t.Context()))(t)
	const many = 300
	for i := range many {
		options := noStream(fmt.Sprintf("s-%d", i))
		if i == 0 {
			options.DeadlineOption = &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(time.Millisecond)}
		}
		must.OK(t, call.Send(&streams.BatchAppendReq{
			CorrelationId: batchID(int64(i)), Options: options, ProposedMessages: batchEvents(1, 10),
		}))
	}
	late := must.Get(call.Recv())(t)
	detail := late.GetError().GetDetails()
	assert.True(t, len(detail) == 1 && detail[0].MessageIs(&shared.Timeout{}) &&
		late.GetCorrelationId().String() == batchID(0).String(), "the late one: %+v", late)
	for i := range many {
		must.OK(t, call.Send(&streams.BatchAppendReq{
			CorrelationId: batchID(int64(i)), ProposedMessages: batchEvents(1, 10), IsFinal: true,
		}))
	}
	must.OK(t, call.CloseSend())
	answers := 0
	for {
		answer, err := call.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		must.OK(t, err)
		if answers++; answer.GetSuccess() == nil {
			t.Errorf("%+v", answer)
		}
	}
	assert.Equal(t, answers, many-1, "answers")
	client := s.client(t)
	assert.Equal(t, len(must.Get(readStream(client, "s-1", esdb.ReadStreamOptions{From: esdb.Start{}}, 10))(t)), 2,
		"events")
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
	assert.True(t, node.KeepaliveEvery == 10*time.Second, "a node asks every %v", node.KeepaliveEvery)
	s := serve(t, node.WithKeepalive(node.Config{}, time.Second))
	ice := &frozen{thaw: make(chan struct{}), stop: make(chan struct{})}
	connection, err := grpc.NewClient("passthrough:///frozen", grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, _ string) (net.Conn, error) {
			conn, err := (&net.Dialer{}).DialContext(ctx, "unix", s.socket)
			ice.Conn = conn
			return ice, err
		}))
	must.OK(t, err)
	defer func() {
		close(ice.thaw) // or closing waits for it
		_ = connection.Close()
	}()
	call := must.Get(streams.NewStreamsClient(connection).Read(t.Context(), subscription("s")))(t)
	if _, err := call.Recv(); err != nil { // the confirmation
		t.Fatal(err)
	}
	assert.Equal(t, s.OpenReads(), 1, "subscriptions")
	close(ice.stop)
	must.Eventually(t, "the subscription is dropped", func() bool { return s.OpenReads() == 0 })
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
	assert.Equal(t, len(readAll(t, client, esdb.ReadAllOptions{From: esdb.Start{}}, 10)), 0, "events")
}

// Only the data counts, as on the servers that clients were made for; and an append of any number of events survives a
// crash.
func TestSizesOfAppends(t *testing.T) {
	t.Parallel()
	disk := vfs.NewCrashableMem()
	client := serve(t, node.Config{Dir: "node", FS: disk}).client(t)
	sized := func(data, metadata int) esdb.EventData {
		e := event("sized", "")
		e.ContentType, e.Data, e.Metadata = esdb.ContentTypeBinary, make([]byte, data), make([]byte, metadata)
		return e
	}
	long := patience
	many := make([]esdb.EventData, 70_000)
	if testing.Short() { // which is more than one batch still
		many = many[:7_000]
	}
	for i := range many {
		many[i] = sized(0, 0)
	}
	for name, c := range map[string]struct {
		list []esdb.EventData
		fits bool
	}{
		"1 MiB of data":        {[]esdb.EventData{sized(1<<20, 0)}, true},
		"and metadata":         {[]esdb.EventData{sized(900_000, 900_000)}, true},
		"much metadata":        {slices.Repeat([]esdb.EventData{sized(10, 1_500_000)}, 8), true},
		"many events":          {many, true},
		"more data":            {[]esdb.EventData{sized(1<<20, 0), sized(1, 0)}, false},
		"more than a request":  {slices.Repeat([]esdb.EventData{sized(10, 1_500_000)}, 12), false},
		"more than one in all": {slices.Repeat([]esdb.EventData{sized(100_000, 0)}, 11), false},
	} {
		_, err := client.AppendToStream(t.Context(), name, esdb.AppendToStreamOptions{
			ExpectedRevision: esdb.NoStream{},
			Deadline:         &long,
		}, c.list...)
		assert.Equal(t, err == nil, c.fits, "%s: %v", name, err)
	}
	again := serve(t, node.Config{Dir: "node", FS: disk.CrashClone(vfs.CrashCloneCfg{})})
	report, err := again.Verify(t.Context(), nil)
	assert.True(t, err == nil && report.OK() && report.Events == uint64(len(many))+1+1+8,
		"after a crash: %+v, %v", report, err)
	list, err := readStream(again.client(t), "much metadata", esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
	assert.True(t, err == nil && len(list) == 8 && len(list[7].Event.UserMetadata) == 1_500_000,
		"%d events, %v", len(list), err)
}

// Real servers remember an id for one of its streams only; the node does for each.
func TestIDsAreRememberedForEachStream(t *testing.T) {
	t.Parallel()
	client := start(t)
	a := event("tested", "{}")
	for _, stream := range []string{"s", "t"} {
		appendTo(t, client, stream, esdb.Any{}, a, a)
	}
	for _, stream := range []string{"s", "t"} {
		appendTo(t, client, stream, esdb.Any{}, a, a)
		appendTo(t, client, stream, esdb.Any{}, a)
		list := must.Get(readStream(client, stream, esdb.ReadStreamOptions{From: esdb.Start{}}, 10))(t)
		assert.Equal(t, len(list), 2, "stream %s … events", stream)
	}
}

func batchID(n int64) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{MostSignificantBits: n}}}
}

func batchEvents(n, size int) (list []*streams.BatchAppendReq_ProposedMessage) {
	for range n {
		list = append(list, &streams.BatchAppendReq_ProposedMessage{
			Id:       &shared.UUID{Value: &shared.UUID_String_{String_: uuid.NewString()}},
			Metadata: map[string]string{"type": "batched", "content-type": "application/json"},
			Data:     make([]byte, size),
		})
	}
	return list
}

func noStream(stream string) *streams.BatchAppendReq_Options {
	return &streams.BatchAppendReq_Options{
		StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte(stream)},
		ExpectedStreamPosition: &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}},
		DeadlineOption:         &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(patience)},
	}
}
