//go:build containers

package containers_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"
)

const (
	adminToken = "local-only-token-of-the-operator-0000000"
	adminPort  = "8081/tcp"
	sentTo     = 4                     // destinations
	pace       = 40 * time.Millisecond // between two events
)

// cluster is an event store, Postgres, two servers that answer and dispatch, two that deliver, and a receiver.
type cluster struct {
	*installation

	networks     map[string]*testcontainers.DockerNetwork // of the store, of Postgres, and of all else
	organization string
	client       http.Client
	receiver     string // its address for this test

	mu         sync.Mutex
	containers map[string]*testcontainers.DockerContainer
	admins     map[string]string // addresses of the admin APIs of servers that answer
	answered   []string          // events whose publication was answered
}

// roles are those of each server.
var roles = map[string]string{
	"api-1":     "api,project,dispatch",
	"api-2":     "api,project,dispatch",
	"deliver-1": "deliver",
	"deliver-2": "deliver",
}

func newCluster(t *testing.T) *cluster {
	i := newInstallation(t)
	for _, tool := range []string{"nsenter", "iptables"} {
		if _, err := exec.LookPath(tool); err != nil || os.Getuid() != 0 {
			t.Skipf("networks are cut by root with %s", tool)
		}
	}
	keys := filepath.Join(i.shared, "keys")
	if err := os.Mkdir(keys, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(keys, 65532, 65532); err != nil {
		t.Fatal(err)
	}
	c := &cluster{
		installation: i,
		networks:     map[string]*testcontainers.DockerNetwork{"all": i.net},
		containers:   map[string]*testcontainers.DockerContainer{},
		admins:       map[string]string{},
		client:       i.client(),
	}
	for _, name := range []string{"store", "postgres"} {
		made, err := network.New(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		testcontainers.CleanupNetwork(t, made)
		c.networks[name] = made
	}
	beside := *i
	beside.net = c.networks["postgres"]
	c.containers["postgres"] = beside.postgres()
	beside.net = c.networks["store"]
	c.containers["store"] = beside.store()
	c.containers["receiver"] = i.start("receiver", receiverImage, testcontainers.WithExposedPorts("8443/tcp"),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("8443/tcp").SkipInternalCheck()))
	c.receiver = c.port("receiver", "8443/tcp")
	for name := range roles {
		c.serve(name)
	}
	first := c.containers["api-1"]
	c.organization, _ = c.command(first, "org", "create", "City")["id"].(string)
	key, _ := c.command(first, "key", "issue", c.organization)["key"].(string)
	call := c.api(first, key)
	for n := range sentTo {
		path := fmt.Sprintf("/events/destinations/crm-%d", n)
		call(http.MethodPut, path, map[string]any{
			"name":   "CRM",
			"config": map[string]any{"url": fmt.Sprintf("https://receiver:8443/%d", n)},
		})
		call(http.MethodPut, path+"/subscriptions/news",
			map[string]any{"eventTypes": []string{"news.*"}, "scopeKind": "all"})
	}
	return c
}

// serve starts a server, also in place of one that was removed.
func (c *cluster) serve(name string) {
	c.Helper()
	server := c.start(name, carillonImage, hardened(),
		testcontainers.WithExposedPorts("8443/tcp", adminPort),
		testcontainers.WithEnv(map[string]string{
			"CARILLON_ROLES":                   roles[name],
			"CARILLON_EVENTSTORE_URL":          "esdb://admin:local-only@store:2113?tls=true&tlsCaFile=/shared/ca.crt",
			"CARILLON_DATABASE_URL":            "postgres://postgres@postgres:5432/postgres",
			"CARILLON_TLS_CERT":                "/shared/carillon.crt",
			"CARILLON_TLS_KEY":                 "/shared/carillon.key",
			"CARILLON_ADMIN_ADDR":              "0.0.0.0:8081",
			"CARILLON_ADMIN_TOKEN":             adminToken,
			"CARILLON_MASTER_KEY":              "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=",
			"CARILLON_KEY_STORE":               "/keys",
			"CARILLON_TRUSTED_PROXIES":         "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
			"CARILLON_DELIVERY_ALLOW_CIDRS":    "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
			"CARILLON_DELIVERY_TIMEOUT":        "5s",
			"CARILLON_DELIVERY_RETRY_SCHEDULE": strings.TrimSuffix(strings.Repeat("1s,", 50), ","),
			"SSL_CERT_FILE":                    "/shared/ca.crt",
		}),
		testcontainers.WithHostConfigModifier(func(h *container.HostConfig) {
			h.Binds = append(h.Binds, filepath.Join(c.shared, "keys")+":/keys")
		}),
		network.WithNetwork([]string{name}, c.networks["store"]),
		network.WithNetwork([]string{name}, c.networks["postgres"]),
		testcontainers.WithWaitStrategy(wait.ForHealthCheck().WithStartupTimeout(2*time.Minute)))
	c.mu.Lock()
	defer c.mu.Unlock()
	c.containers[name] = server
	if strings.HasPrefix(name, "api") {
		c.admins[name] = c.port(name, adminPort)
	}
}

// port is the address at which this test reaches a port of a container.
func (c *cluster) port(name, port string) string {
	c.Helper()
	mapped, err := c.containers[name].MappedPort(c.Context(), port)
	if err != nil {
		c.Fatal(err)
	}
	return "localhost:" + mapped.Port()
}

// publish publishes an event every now and then, each until it is answered, by one server or the other.
func (c *cluster) publish() (stop func()) {
	done := make(chan struct{})
	var group sync.WaitGroup
	for n := range 8 {
		group.Go(func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(8 * pace):
				}
				id := uuid.NewString()
				body := fmt.Sprintf(`{"id":%q,"type":"news.item.added","source":"/news","organizationId":%q,`+
					`"data":{"id":"1","title":"Fair"}}`, id, c.organization)
				for try := n; c.post(try, body) != nil; try++ {
					time.Sleep(pace) // before the other server is asked
				}
				c.mu.Lock()
				c.answered = append(c.answered, id)
				c.mu.Unlock()
			}
		})
	}
	return func() { close(done); group.Wait() }
}

// post sends an event to a server.
func (c *cluster) post(try int, body string) error {
	c.mu.Lock()
	address := c.admins[fmt.Sprintf("api-%d", 1+try%2)]
	c.mu.Unlock()
	request, err := http.NewRequestWithContext(c.Context(), http.MethodPost, "http://"+address+"/admin/events",
		bytes.NewBufferString(body))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+adminToken)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("X-Forwarded-Proto", "https")
	client := http.Client{Timeout: 5 * time.Second}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	_ = response.Body.Close()
	if response.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s", response.Status)
	}
	return nil
}

// arrival is a request at the receiver.
type arrival struct {
	delivery string
	at       time.Time
}

// arrivals are all requests at the receiver so far.
func (c *cluster) arrivals() (list []arrival) {
	c.Helper()
	request, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "https://"+c.receiver+"/", nil)
	if err != nil {
		c.Fatal(err)
	}
	response, err := c.client.Do(request)
	if err != nil {
		c.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		c.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		nanoseconds, _ := strconv.ParseInt(fields[2], 10, 64)
		list = append(list, arrival{fields[0] + " " + fields[1], time.Unix(0, nanoseconds)})
	}
	return list
}

// address is the one of a container in a network.
func (c *cluster) address(name, network string) netip.Addr {
	c.Helper()
	inspected, err := c.containers[name].Inspect(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	address, err := netip.ParseAddr(fmt.Sprint(inspected.NetworkSettings.Networks[c.networks[network].Name].IPAddress))
	if err != nil {
		c.Fatal(err)
	}
	return address
}

// inside runs a command in the network namespace of a container.
func (c *cluster) inside(name string, arguments ...string) {
	c.Helper()
	inspected, err := c.containers[name].Inspect(c.Context())
	if err != nil {
		c.Fatal(err)
	}
	run(c.T, "", "nsenter", append([]string{"-t", strconv.Itoa(inspected.State.Pid), "-n"}, arguments...)...)
}

// cut drops all packets between a server and something else, and returns what mends it.
func (c *cluster) cut(server, peer, network string) (mend func()) {
	c.Helper()
	from := c.address(peer, network).String()
	c.inside(server, "iptables", "-I", "INPUT", "-s", from, "-j", "DROP")
	c.inside(server, "iptables", "-I", "OUTPUT", "-d", from, "-j", "DROP")
	return func() {
		c.inside(server, "iptables", "-F", "INPUT")
		c.inside(server, "iptables", "-F", "OUTPUT")
	}
}

// store starts an event store.
func (i *installation) store() *testcontainers.DockerContainer {
	i.Helper()
	return i.start("store", carillonImage,
		hardened(),
		testcontainers.WithCmd("eventstore", "--addr", ":2113", "--data", "/data/events", "--user", "admin",
			"--tls-cert", "/shared/store.crt", "--tls-key", "/shared/store.key"),
		testcontainers.WithEnv(map[string]string{"CARILLON_EVENTSTORE_PASSWORD": "local-only"}),
		testcontainers.WithWaitStrategy(wait.ForListeningPort("2113/tcp").SkipInternalCheck()),
		testcontainers.WithExposedPorts("2113/tcp"))
}

func run(t *testing.T, dir, name string, arguments ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, arguments...) //nolint:gosec // of this test
	command.Dir = dir
	out, err := command.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v: %s", name, err, out)
	}
	return string(out)
}
