package node_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"

	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// certificate makes a self-signed one for loopback.
func certificate(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      pkix.Name{CommonName: "node"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serveSecured starts a node with TLS, which asks for the password "right" of admin.
func serveSecured(t *testing.T) *server {
	t.Helper()
	return serve(t, node.Config{
		TLS:        &tls.Config{Certificates: []tls.Certificate{certificate(t)}, MinVersion: tls.VersionTLS12},
		User:       "admin",
		Password:   "right",
		GuessDelay: time.Millisecond,
	})
}

// listenTCP serves loopback too, and returns the address.
func (s *server) listenTCP(t *testing.T) string {
	t.Helper()
	listener := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- s.Serve(listener) }()
	t.Cleanup(func() {
		s.stop(t)
		must.OK(t, <-served)
	})
	return listener.Addr().String()
}

func dial(t *testing.T, connection string) *esdb.Client {
	t.Helper()
	config := must.Get(esdb.ParseConnectionString(connection))(t)
	config.Logger = esdb.NoopLogging()
	client := must.Get(esdb.NewClient(config))(t)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func TestUserAndPasswordOverTLS(t *testing.T) {
	t.Parallel()
	s := serveSecured(t)
	address := s.listenTCP(t)
	appendTo(t, dial(t, "esdb://admin:right@"+address+"?tlsverifycert=false"), "s", esdb.NoStream{}, events(1)...)
	for name, c := range map[string]struct {
		connection string
		want       esdb.ErrorCode
	}{
		"none":           {"esdb://" + address + "?tlsverifycert=false", esdb.ErrorCodeAccessDenied},
		"wrong password": {"esdb://admin:guess@" + address + "?tlsverifycert=false", esdb.ErrorCodeUnauthenticated},
		"wrong user":     {"esdb://root:right@" + address + "?tlsverifycert=false", esdb.ErrorCodeUnauthenticated},
	} {
		client := dial(t, c.connection)
		_, err := client.AppendToStream(context.Background(), "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}},
			events(1)...)
		assert.Equal(t, code(err), c.want, "%s: append: %v", name, err)
		assert.True(t, assert.Err(client.SubscribeToAll(context.Background(), esdb.SubscribeToAllOptions{})) != nil,
			"%s: subscribed", name)
		assert.Equal(t, code(client.CreatePersistentSubscription(context.Background(), "s", "g",
			esdb.PersistentStreamSubscriptionOptions{})), c.want, "%s: create group", name)
	}
	// A call may bring its own.
	must.Get(dial(t, "esdb://"+address+"?tlsverifycert=false").AppendToStream(context.Background(), "s",
		esdb.AppendToStreamOptions{
			ExpectedRevision: esdb.Any{}, Authenticated: &esdb.Credentials{Login: "admin", Password: "right"},
		}, events(1)...))(t)
}

func TestDiscovery(t *testing.T) {
	t.Parallel()
	address := serve(t, node.Config{}).listenTCP(t)
	client := dial(t, "esdb://"+address+","+address+"?tls=false")
	appendTo(t, client, "s", esdb.NoStream{}, events(1)...)
	version, err := client.GetServerVersion()
	assert.True(t, err == nil && version.Major >= 23, "version %+v, %v", version, err)
}

func rawConnection(t *testing.T, s *server) *grpc.ClientConn {
	t.Helper()
	connection := must.Get(grpc.NewClient("unix://"+s.socket, grpc.WithTransportCredentials(insecure.NewCredentials())))(t)
	t.Cleanup(func() { _ = connection.Close() })
	return connection
}

func first(trailers metadata.MD, key string) string {
	if values := trailers.Get(key); len(values) > 0 {
		return values[0]
	}
	return ""
}

func TestListenUnix_replacesStaleSocket(t *testing.T) {
	t.Parallel()
	dir := must.Get(os.MkdirTemp("", "sock"))(t)
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	stale := must.Get((&net.ListenConfig{}).Listen(t.Context(), "unix", path))(t)
	if unix, ok := stale.(*net.UnixListener); ok {
		unix.SetUnlinkOnClose(false)
	}
	must.OK(t, stale.Close())
	n := must.Get(node.Open(node.Config{Dir: filepath.Join(dir, "data")}))(t)
	served := make(chan error, 1)
	go func() { served <- n.ListenUnix(path) }()
	s := &server{Node: n, socket: path}
	appendTo(t, s.client(t), "s", esdb.NoStream{}, events(1)...)
	assert.Equal(t, must.Get(os.Stat(path))(t).Mode().Perm(), 0o600, "socket")
	must.OK(t, n.Close())
	must.OK(t, <-served)
}

// A damaged store is evidence, and a backup must not change.
func TestVerifyChangesNothing(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	client := s.client(t)
	appendTo(t, client, "s", esdb.NoStream{}, events(20)...)
	dir := filepath.Join(t.TempDir(), "backup") // its newest events are in the write-ahead log alone
	must.OK(t, s.Backup(t.Context(), dir))
	files := func() (names []string) {
		entries := must.Get(os.ReadDir(dir))(t)
		for _, entry := range entries {
			if info, err := entry.Info(); err == nil && entry.Name() != "LOCK" {
				names = append(names, fmt.Sprint(entry.Name(), info.Size(), info.ModTime()))
			}
		}
		return names
	}
	before := files()
	report, err := node.Verify(t.Context(), node.Config{Dir: dir}, nil)
	assert.True(t, err == nil && report.OK() && report.Events == 20, "verify: %+v, %v", report, err)
	after := files()
	assert.True(t, slices.Equal(after, before), "files were %s, now %s", before, after)
}

func TestVerifyFindsFlippedBits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	for i := range 20 {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, events(20)...)
	}
	s.stop(t)
	tables, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	must.True(t, err == nil && len(tables) != 0, "%v, %v", tables, err)
	for _, table := range tables {
		content := must.Get(os.ReadFile(table))(t)
		content[len(content)/3] ^= 4
		must.OK(t, os.WriteFile(table, content, 0o600))
	}
	if report, err := node.Verify(t.Context(), node.Config{Dir: dir}, nil); err != nil || report.OK() {
		t.Errorf("verify: %+v, %v", report, err)
	}
	assert.True(t, assert.Err(node.Verify(t.Context(), node.Config{Dir: filepath.Join(dir, "none")}, nil)) != nil,
		"verified a node that isn't there")
}
