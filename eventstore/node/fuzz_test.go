package node

import (
	"context"
	"io"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/cockroachdb/pebble/v2/vfs"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/proto"

	"carillon/eventstore/storetest/must"
)

// fuzzedCall is a call whose client sends given bytes and listens to whatever comes.
type fuzzedCall struct {
	ctx      context.Context //nolint:containedctx // a call has one
	messages [][]byte
}

func (c *fuzzedCall) Context() context.Context     { return c.ctx }
func (c *fuzzedCall) SetHeader(metadata.MD) error  { return nil }
func (c *fuzzedCall) SendHeader(metadata.MD) error { return nil }
func (c *fuzzedCall) SetTrailer(metadata.MD)       {}

func (c *fuzzedCall) SendMsg(message any) error {
	_, err := proto.Marshal(message.(proto.Message))
	return err
}

func (c *fuzzedCall) RecvMsg(message any) error {
	if len(c.messages) == 0 {
		return io.EOF
	}
	next := c.messages[0]
	c.messages = c.messages[1:]
	return proto.Unmarshal(next, message.(proto.Message))
}

// streamsCall lets the node answer a call of the Streams service.
func streamsCall(n *Node, method string, call grpc.ServerStream) error {
	for _, desc := range streams.Streams_ServiceDesc.Streams {
		if desc.StreamName == method {
			return desc.Handler(streamsService{Node: n}, call)
		}
	}
	panic("no method " + method)
}

func fuzzedNode(f *testing.F) *Node {
	f.Helper()
	n := must.Get(Open(Config{Dir: "node", FS: vfs.NewMem()}))(f)
	f.Cleanup(func() {
		must.OK(f, n.Close())
	})
	return n
}

func seed(f *testing.F, messages ...proto.Message) {
	f.Helper()
	for _, message := range messages {
		encoded := must.Get(proto.Marshal(message))(f)
		f.Add(encoded)
	}
}

// FuzzRead sends arbitrary read requests. A subscription ends because its client is gone.
func FuzzRead(f *testing.F) {
	n := fuzzedNode(f)
	name := &shared.StreamIdentifier{StreamName: []byte("s")}
	seed(f,
		&streams.ReadReq{Options: &streams.ReadReq_Options{
			StreamOption: &streams.ReadReq_Options_Stream{
				Stream: &streams.ReadReq_Options_StreamOptions{StreamIdentifier: name},
			},
			CountOption: &streams.ReadReq_Options_Count{Count: 5}, ReadDirection: streams.ReadReq_Options_Backwards,
		}},
		&streams.ReadReq{Options: &streams.ReadReq_Options{
			StreamOption: &streams.ReadReq_Options_All{All: &streams.ReadReq_Options_AllOptions{}},
			CountOption:  &streams.ReadReq_Options_Subscription{Subscription: &streams.ReadReq_Options_SubscriptionOptions{}},
			FilterOption: &streams.ReadReq_Options_Filter{Filter: &streams.ReadReq_Options_FilterOptions{
				Filter: &streams.ReadReq_Options_FilterOptions_StreamIdentifier{
					StreamIdentifier: &streams.ReadReq_Options_FilterOptions_Expression{Regex: "^a"},
				}, CheckpointIntervalMultiplier: 1,
			}},
		}},
	)
	f.Fuzz(func(_ *testing.T, message []byte) {
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		_ = streamsCall(n, "Read", &fuzzedCall{ctx: ctx, messages: [][]byte{message}})
	})
}

// FuzzAppendCall sends arbitrary messages to the two ways of appending.
func FuzzAppendCall(f *testing.F) {
	n := fuzzedNode(f)
	f.Add([]byte{0x0a, 0x07, 0x0a, 0x03, 0x1a, 0x01, 's', 0x22, 0x00}, []byte{0x12, 0x00}, true)
	f.Add([]byte{}, []byte{}, false)
	f.Fuzz(func(_ *testing.T, first, second []byte, batch bool) {
		call := &fuzzedCall{ctx: context.Background(), messages: [][]byte{first, second}}
		if batch {
			_ = streamsCall(n, "BatchAppend", call)
		} else {
			_ = streamsCall(n, "Append", call)
		}
	})
}

func FuzzLink(f *testing.F) {
	f.Add([]byte("3@stream"))
	f.Add([]byte("@"))
	f.Fuzz(func(t *testing.T, data []byte) {
		stream, revision, ok := parseLink(data)
		if ok && (stream == "" || revision > 1<<63) {
			t.Errorf("%q links to %d of %q", data, revision, stream)
		}
	})
}
