package node_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/google/uuid"

	"carillon/eventstore/node"
	"carillon/eventstore/storetest/must"
)

// patience bounds every wait in these tests; nothing takes this long unless it is broken.
const patience = 2 * time.Minute

// server is a node that serves a unix socket until the test ends or stop is called.
type server struct {
	*node.Node
	socket string
	done   chan error
}

func serve(tb testing.TB, config node.Config) *server {
	tb.Helper()
	if config.Dir == "" {
		config.Dir = tb.TempDir()
	}
	if config.Logger == nil {
		config.Logger = slog.New(slog.DiscardHandler)
	}
	n := must.Get(node.Open(config))(tb)
	// A socket's path may have 107 bytes, and those of test directories are long.
	dir := must.Get(os.MkdirTemp("", "node"))(tb)
	tb.Cleanup(func() { _ = os.RemoveAll(dir) })
	socket := filepath.Join(dir, "socket")
	listener := must.Get((&net.ListenConfig{}).Listen(tb.Context(), "unix", socket))(tb)
	s := &server{Node: n, socket: socket, done: make(chan error, 1)}
	go func() { s.done <- n.Serve(listener) }()
	tb.Cleanup(func() { s.stop(tb) })
	return s
}

func (s *server) stop(tb testing.TB) {
	if s.done == nil {
		return
	}
	must.OK(tb, errors.Join(s.Close(), <-s.done))
	s.done = nil
}

// client connects the official client.
func (s *server) client(tb testing.TB) *esdb.Client {
	tb.Helper()
	config := must.Get(esdb.ParseConnectionString("esdb://localhost:2113?tls=false"))(tb)
	config.Address = "unix://" + s.socket
	config.Logger = esdb.NoopLogging()
	client := must.Get(esdb.NewClient(config))(tb)
	tb.Cleanup(func() { _ = client.Close() })
	return client
}

func start(tb testing.TB) *esdb.Client {
	tb.Helper()
	return serve(tb, node.Config{}).client(tb)
}

func event(eventType, data string) esdb.EventData {
	return esdb.EventData{
		EventID:     uuid.New(),
		EventType:   eventType,
		ContentType: esdb.ContentTypeJson,
		Data:        []byte(data),
		Metadata:    []byte(`{"by":"test"}`),
	}
}

func events(n int) []esdb.EventData {
	list := make([]esdb.EventData, n)
	for i := range list {
		list[i] = event("tested", `{}`)
	}
	return list
}

func appendTo(
	tb testing.TB, client *esdb.Client, stream string, expected esdb.ExpectedRevision, list ...esdb.EventData,
) *esdb.WriteResult {
	tb.Helper()
	result, err := client.AppendToStream(
		context.Background(), stream, esdb.AppendToStreamOptions{ExpectedRevision: expected}, list...)
	must.True(tb, err == nil, "append to %s: %v", stream, err)
	return result
}

func readAll(tb testing.TB, client *esdb.Client, options esdb.ReadAllOptions, count uint64) []*esdb.ResolvedEvent {
	tb.Helper()
	stream := must.Get(client.ReadAll(context.Background(), options, count))(tb)
	list := must.Get(drain(stream))(tb)
	return list
}

func readStream(
	client *esdb.Client, name string, options esdb.ReadStreamOptions, count uint64,
) ([]*esdb.ResolvedEvent, error) {
	stream, err := client.ReadStream(context.Background(), name, options, count)
	if err != nil {
		return nil, err
	}
	return drain(stream)
}

func drain(stream *esdb.ReadStream) ([]*esdb.ResolvedEvent, error) {
	defer stream.Close()
	var list []*esdb.ResolvedEvent
	for {
		resolved, err := stream.Recv()
		if errors.Is(err, io.EOF) {
			return list, nil
		}
		if err != nil {
			return list, err
		}
		list = append(list, resolved)
	}
}

func code(err error) esdb.ErrorCode {
	var known *esdb.Error
	if errors.As(err, &known) {
		return known.Code()
	}
	return -1
}
