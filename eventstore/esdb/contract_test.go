package esdb_test

import (
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	client "github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
	"carillon/eventstore/storetest/must"
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
	config := must.Get(client.ParseConnectionString("esdb://localhost:2113?tls=false"))(t)
	config.Address = "unix://" + socket
	protocol.Run(t, connect(t, config))
}

// Both contracts on a server that is not ours.
func TestContractOnARealServer(t *testing.T) {
	t.Parallel()
	url := realServer(t)
	store := must.Get(esdb.Open(url, slog.New(slog.DiscardHandler)))(t)
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
	c := must.Get(client.NewClient(config))(t)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// realServer is the connection string of a real EventStoreDB: that of CARILLON_TEST_EVENTSTORE_URL, or of a container
// of the image that CARILLON_TEST_EVENTSTORE_IMAGE names, if a Docker engine answers. Without either the test is
// skipped.
func realServer(t *testing.T) string {
	t.Helper()
	if url := os.Getenv("CARILLON_TEST_EVENTSTORE_URL"); url != "" {
		return url
	}
	image := os.Getenv("CARILLON_TEST_EVENTSTORE_IMAGE")
	if image == "" {
		t.Skip("neither CARILLON_TEST_EVENTSTORE_URL nor CARILLON_TEST_EVENTSTORE_IMAGE is set")
	}
	testcontainers.SkipIfProviderIsNotHealthy(t)
	url, err := container(t, image)
	must.True(t, err == nil, "container of %s: %v", image, err)
	return url
}

const serverPort = "2113/tcp"

// container runs one server in memory, in plain. The newer name of the product has its own prefix of variables.
func container(t *testing.T, image string) (string, error) {
	t.Helper()
	settings := map[string]string{}
	for _, prefix := range []string{"EVENTSTORE_", "KURRENTDB_"} {
		settings[prefix+"INSECURE"], settings[prefix+"MEM_DB"], settings[prefix+"RUN_PROJECTIONS"] = "true", "true", "None"
	}
	running, err := testcontainers.Run(t.Context(), image,
		testcontainers.WithEnv(settings), testcontainers.WithExposedPorts(serverPort),
		testcontainers.WithWaitStrategy(wait.ForHTTP("/health/live").WithPort(serverPort).WithStartupTimeout(2*time.Minute).
			WithStatusCodeMatcher(func(status int) bool { return status == http.StatusNoContent })))
	testcontainers.CleanupContainer(t, running)
	if err != nil {
		return "", err
	}
	host, err := running.Host(t.Context())
	if err != nil {
		return "", err
	}
	port, err := running.MappedPort(t.Context(), serverPort)
	if err != nil {
		return "", err
	}
	return "esdb://" + net.JoinHostPort(host, port.Port()) + "?tls=false", nil
}

// BenchmarkStore measures the calls of a program to a node, the node's part included.
func BenchmarkStore(b *testing.B) { storetest.Bench(b, nodetest.Start(b)) }
