//go:build nightly

package containers_test

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/testcontainers/testcontainers-go"
	tcexec "github.com/testcontainers/testcontainers-go/exec"
	"github.com/testcontainers/testcontainers-go/network"
	"github.com/testcontainers/testcontainers-go/wait"

	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// installation is Postgres, a server and a receiver, each in a container of its own.
type installation struct {
	*testing.T
	shared    string // a directory that all containers see at /shared
	authority *mtlstest.Authority
	net       *testcontainers.DockerNetwork
}

// share writes a file that the unprivileged users of all containers can read.
func (i *installation) share(name, text string) {
	i.Helper()
	if err := os.WriteFile(filepath.Join(i.shared, name), []byte(text), 0o644); err != nil { //nolint:gosec // see above
		i.Fatal(err)
	}
}

func newInstallation(t *testing.T) *installation {
	t.Helper()
	needImages(t)
	i := &installation{T: t, shared: t.TempDir()}
	if err := os.Chmod(i.shared, 0o755); err != nil { //nolint:gosec // containers read it as another user
		t.Fatal(err)
	}
	i.authority = mtlstest.NewAuthority(t, "Carillon test authority")
	i.share("ca.crt", mtlstest.PEM("CERTIFICATE", i.authority.Own.Raw))
	for _, host := range []string{"carillon", "receiver"} {
		pair := i.authority.Issue(host, func(c *x509.Certificate) {
			c.DNSNames = []string{host, "localhost"}
			c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		})
		i.share(host+".crt", pair.Chain)
		i.share(host+".key", pair.Key)
	}
	net, err := network.New(t.Context())
	if err != nil {
		t.Skipf("the engine makes no network: %v", err)
	}
	testcontainers.CleanupNetwork(t, net)
	i.net = net
	return i
}

// start runs a container under a host name.
func (i *installation) start(
	host, image string, options ...testcontainers.ContainerCustomizer,
) *testcontainers.DockerContainer {
	i.Helper()
	options = append([]testcontainers.ContainerCustomizer{
		network.WithNetwork([]string{host}, i.net),
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
			c.Binds = []string{i.shared + ":/shared:ro"}
		}),
	}, options...)
	running, err := testcontainers.Run(i.Context(), image, options...)
	testcontainers.CleanupContainer(i.T, running)
	switch {
	case err == nil:
	case image == carillonImage && i.hasStarted(running):
		i.Fatalf("%s: %v", host, err)
	default:
		i.Skipf("the engine does not run %s: %v", host, err)
	}
	return running
}

// hasStarted reports whether a container has run at all.
func (i *installation) hasStarted(c *testcontainers.DockerContainer) bool {
	if c == nil {
		return false
	}
	state, err := c.State(i.Context())
	if err != nil {
		return false
	}
	at, err := time.Parse(time.RFC3339Nano, state.StartedAt)
	return err == nil && !at.IsZero()
}

// hardened is how an operator runs the image.
func hardened() testcontainers.CustomizeRequestOption {
	return testcontainers.WithHostConfigModifier(func(c *container.HostConfig) {
		c.ReadonlyRootfs = true
		c.Tmpfs = map[string]string{"/tmp": ""}
		c.CapDrop = []string{"ALL"}
		c.SecurityOpt = []string{"no-new-privileges:true"}
	})
}

// command runs the program in a container and decodes its JSON.
func (i *installation) command(c *testcontainers.DockerContainer, arguments ...string) map[string]any {
	i.Helper()
	arguments = append(append([]string{"/carillon"}, arguments...), "--json")
	code, output, err := c.Exec(i.Context(), arguments, tcexec.Multiplexed())
	must.OK(i, err)
	text, err := io.ReadAll(output)
	must.OK(i, err)
	result := map[string]any{}
	if err := json.Unmarshal(text, &result); err != nil || code != 0 {
		i.Fatalf("%v: exit code %d, %v: %s", arguments, code, err, text)
	}
	return result
}

func (i *installation) client() http.Client {
	return http.Client{
		Timeout: 30 * time.Second,
		Transport: &http.Transport{
			TLSClientConfig: &tls.Config{RootCAs: i.authority.Pool(), MinVersion: tls.VersionTLS12},
		},
	}
}

// reach skips the test if the receiver's port can't be reached from here.
func (i *installation) reach(receiver *testcontainers.DockerContainer) {
	i.Helper()
	port, err := receiver.MappedPort(i.Context(), "8443/tcp")
	if err != nil {
		i.Skip(err)
	}
	client := i.client()
	for try := 0; ; try++ {
		request, err := http.NewRequestWithContext(i.Context(), http.MethodGet, "https://localhost:"+port.Port(), http.NoBody)
		must.OK(i, err)
		response, err := client.Do(request)
		if err == nil {
			_ = response.Body.Close()
			return
		}
		if try == 20 {
			i.Skipf("a container's port can't be reached: %v", err)
		}
		time.Sleep(250 * time.Millisecond)
	}
}

// api returns a function that sends a request with a key to the API.
func (i *installation) api(c *testcontainers.DockerContainer, key string) func(method, path string, body any) {
	i.Helper()
	port, err := c.MappedPort(i.Context(), "8443/tcp")
	must.OK(i, err)
	client := i.client()
	return func(method, path string, body any) {
		i.Helper()
		encoded, err := json.Marshal(body)
		must.OK(i, err)
		address := fmt.Sprintf("https://localhost:%s%s", port.Port(), path)
		request, err := http.NewRequestWithContext(i.Context(), method, address, bytes.NewReader(encoded))
		must.OK(i, err)
		request.Header.Set("Authorization", "Bearer "+key)
		request.Header.Set("Content-Type", "application/json")
		response, err := client.Do(request)
		must.OK(i, err)
		defer func() { _ = response.Body.Close() }()
		answer, err := io.ReadAll(response.Body)
		must.True(i, err == nil && response.StatusCode == http.StatusCreated,
			"%s %s: %d, %v: %s", method, path, response.StatusCode, err, answer)
	}
}

// postgres starts a Postgres that trusts everybody in its network, from the programs of this machine.
func (i *installation) postgres() *testcontainers.DockerContainer {
	i.Helper()
	owner, data := os.Geteuid(), i.TempDir()
	if owner == 0 {
		owner = 65534 // Postgres refuses root
		must.OK(i, os.Chown(data, owner, owner))
	}
	binds := []string{data + ":/db"}
	for _, dir := range []string{"/usr", "/bin", "/lib", "/lib64", "/etc/passwd"} {
		if _, err := os.Stat(dir); err == nil {
			binds = append(binds, dir+":"+dir+":ro")
		}
	}
	return i.start("postgres", receiverImage,
		testcontainers.WithHostConfigModifier(func(c *container.HostConfig) { c.Binds = binds }),
		testcontainers.WithConfigModifier(func(c *container.Config) { c.User = strconv.Itoa(owner) }),
		testcontainers.WithEntrypoint("/bin/sh", "-c", `set -e
			PATH=`+postgresBinaries(i.T)+`:/usr/bin:/bin
			[ -s /db/pg_hba.conf ] || {
				initdb -N -U postgres -D /db >/dev/null && echo "host all all all trust" >>/db/pg_hba.conf; }
			rm -f /db/postmaster.pid
			exec postgres -D /db -k /db -c listen_addresses="*"`),
		testcontainers.WithWaitStrategy(wait.ForLog("ready to accept connections").WithStartupTimeout(time.Minute)))
}

// The image becomes healthy unprivileged and with a read-only root, delivers to a receiver in another container, and
// stops in time. An engine that can't run the other containers, or whose ports can't be reached from here, skips it.
func TestImage(t *testing.T) {
	i := newInstallation(t)
	receiver := i.start("receiver", receiverImage, hardened(), testcontainers.WithExposedPorts("8443/tcp"))
	i.reach(receiver)
	i.postgres()
	server := i.start("carillon", carillonImage, hardened(),
		testcontainers.WithExposedPorts("8443/tcp"),
		testcontainers.WithEnv(map[string]string{
			"CARILLON_DATABASE_URL":         "postgres://postgres@postgres:5432/postgres",
			"CARILLON_TLS_CERT":             "/shared/carillon.crt",
			"CARILLON_TLS_KEY":              "/shared/carillon.key",
			"CARILLON_DELIVERY_ALLOW_CIDRS": "10.0.0.0/8,172.16.0.0/12,192.168.0.0/16",
			"SSL_CERT_FILE":                 "/shared/ca.crt",
		}),
		testcontainers.WithWaitStrategy(wait.ForHealthCheck().WithStartupTimeout(2*time.Minute)))

	organization, _ := i.command(server, "org", "create", "City")["id"].(string)
	key, _ := i.command(server, "key", "issue", organization)["key"].(string)
	call := i.api(server, key)
	call(http.MethodPut, "/events/destinations/crm",
		map[string]any{"name": "CRM", "config": map[string]any{"url": "https://receiver:8443/hook"}})
	call(http.MethodPut, "/events/destinations/crm/subscriptions/news",
		map[string]any{"eventTypes": []string{"news.*"}, "scopeKind": "all"})
	event := fmt.Sprintf(`{"type":"news.item.added","source":"/news","organizationId":%q,"data":{"id":"1",`+
		`"title":"Fair"}}`, organization)
	i.share("event.json", event+"\n")
	i.command(server, "publish", "/shared/event.json")
	must.OK(t, wait.ForLog("received ").WithStartupTimeout(time.Minute).WaitUntilReady(t.Context(), receiver))

	inspected := must.Get(server.Inspect(t.Context()))(t)
	assert.True(t, inspected.Config.User == "65532:65532" && inspected.HostConfig.ReadonlyRootfs,
		"runs as %q, read-only root %t", inspected.Config.User, inspected.HostConfig.ReadonlyRootfs)
	limit := 30 * time.Second
	must.OK(t, server.Stop(t.Context(), &limit))
	state, err := server.State(t.Context())
	if err != nil || state.ExitCode != 0 {
		logs, _ := server.Logs(t.Context())
		text, _ := io.ReadAll(logs)
		t.Errorf("stopped with exit code %d, %v: %s", state.ExitCode, err, text[max(0, len(text)-2000):])
	}
}
