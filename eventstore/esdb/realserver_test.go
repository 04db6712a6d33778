package esdb_test

import (
	"net"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"
)

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
	if err != nil {
		t.Fatalf("container of %s: %v", image, err)
	}
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
