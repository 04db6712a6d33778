package node_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"carillon/eventstore/node"
)

// The Operations service is not in the client's package. Its messages are made of unknown fields here.
func operation(ctx context.Context, connection *grpc.ClientConn, method string, options []byte, trailers *metadata.MD) (id string, result uint64, err error) {
	request, response := &shared.Empty{}, &shared.Empty{}
	if err := proto.Unmarshal(protowire.AppendBytes(protowire.AppendTag(nil, 1, protowire.BytesType), options), request); err != nil {
		return "", 0, err
	}
	if err := connection.Invoke(ctx, "/event_store.client.operations.Operations/"+method, request, response, grpc.Trailer(trailers)); err != nil {
		return "", 0, err
	}
	for rest := []byte(response.ProtoReflect().GetUnknown()); len(rest) > 0; {
		field, kind, n := protowire.ConsumeTag(rest)
		rest = rest[n:]
		switch {
		case field == 1 && kind == protowire.BytesType:
			var text []byte
			text, n = protowire.ConsumeBytes(rest)
			id = string(text)
		case field == 2 && kind == protowire.VarintType:
			result, n = protowire.ConsumeVarint(rest)
		default:
			return "", 0, fmt.Errorf("field %d", field)
		}
		rest = rest[n:]
	}
	return id, result, nil
}

func number(value uint64) []byte {
	return protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), value)
}

func TestScavengeByTheOperationsService(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	client, connection := s.client(t), rawConnection(t, s)
	for i := range 50 {
		stream := fmt.Sprintf("s-%d", i)
		appendTo(t, client, stream, esdb.NoStream{}, events(20)...)
		m := esdb.StreamMetadata{}
		m.SetMaxCount(1)
		if _, err := client.SetStreamMetadata(t.Context(), stream, esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, m); err != nil {
			t.Fatal(err)
		}
	}
	var trailers metadata.MD
	id, result, err := operation(t.Context(), connection, "StartScavenge", number(1), &trailers)
	if err != nil || result != 0 || id == "" {
		t.Fatalf("%q, %d, %v", id, result, err)
	}
	eventually(t, "what is hidden is gone", func() bool {
		report, err := s.Verify(t.Context(), nil)
		return err == nil && report.Events == 100 // an event and its metadata, of each
	})
	if _, _, err := operation(t.Context(), connection, "StopScavenge", protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), "none"), &trailers); status.Code(err) != codes.NotFound ||
		first(trailers, "exception") != "scavenge-not-found" || first(trailers, "scavenge-id") != "none" {
		t.Errorf("stopped what isn't there: %v, %v", err, trailers)
	}
	if _, _, err := operation(t.Context(), connection, "StartScavenge", number(0), &trailers); status.Code(err) != codes.InvalidArgument {
		t.Errorf("with no thread: %v", err)
	}
}

// A node that is opened for reading serves what there is, refuses all else, and leaves the directory alone.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := node.Open(node.Config{Dir: dir + "/none", ReadOnly: true}); err == nil {
		t.Error("opened what isn't there")
	}
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	appendTo(t, client, "s", esdb.NoStream{}, events(3)...)
	s.stop(t)
	s = serve(t, node.Config{Dir: dir, ReadOnly: true})
	client = s.client(t)
	if list, err := readStream(client, "s", esdb.ReadStreamOptions{From: esdb.Start{}}, 10); err != nil || len(list) != 3 {
		t.Errorf("%d events, %v", len(list), err)
	}
	if list, _ := untilCaughtUp(t, subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.Start{}})); len(list) != 3 {
		t.Errorf("subscribed to %d events", len(list))
	}
	for name, try := range map[string]func() error{
		"append": func() error {
			_, err := client.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}}, events(1)...)
			return err
		},
		"delete": func() error {
			_, err := client.DeleteStream(t.Context(), "s", esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}})
			return err
		},
		"scavenge": func() error {
			_, _, err := operation(t.Context(), rawConnection(t, s), "StartScavenge", number(1), &metadata.MD{})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "read-only") && code(err) != esdb.ErrorCodeAccessDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.stop(t)
	client = serve(t, node.Config{Dir: dir}).client(t)
	appendTo(t, client, "s", esdb.Revision(2), events(1)...)
}
