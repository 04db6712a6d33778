package esdb_test

import (
	"log/slog"
	"path/filepath"
	"testing"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
	"carillon/eventstore/storetest/protocol"
)

func TestContractOnTheEmbeddedNode(t *testing.T) {
	t.Parallel()
	storetest.Run(t, nodetest.Start(t))
}

func TestProtocolOnTheEmbeddedNode(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(nodetest.SocketDir(t), "s")
	t.Cleanup(nodetest.Serve(t, t.TempDir(), socket))
	config, err := client.ParseConnectionString("esdb://localhost:2113?tls=false")
	if err != nil {
		t.Fatal(err)
	}
	config.Address = "unix://" + socket
	protocol.Run(t, connect(t, config))
}

// Both contracts on a server that is not ours.
func TestContractOnARealServer(t *testing.T) {
	t.Parallel()
	url := realServer(t)
	store, err := esdb.Open(url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	t.Run("store", func(t *testing.T) { storetest.Run(t, store) })
	config, err := client.ParseConnectionString(url)
	if err != nil {
		t.Fatal("CARILLON_TEST_EVENTSTORE_URL can't be parsed")
	}
	t.Run("protocol", func(t *testing.T) { protocol.Run(t, connect(t, config)) })
}

func connect(t *testing.T, config *client.Configuration) *client.Client {
	t.Helper()
	config.Logger = client.NoopLogging()
	c, err := client.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
