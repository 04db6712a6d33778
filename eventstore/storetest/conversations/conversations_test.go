package conversations_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"io/fs"
	"log/slog"
	"math/big"
	"os"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/conversations"
	"carillon/eventstore/storetest/must"
)

const (
	// accessFile has the conversations with a server that has TLS and one user.
	accessFile = "access.json"
	// readAllFile has conversations that read what they wrote last at the end of $all: one runs at a time.
	readAllFile    = "read-all.json"
	accessUser     = "admin"
	accessPassword = "changeit"
)

// TestRecordedConversations replays what a real EventStoreDB answered, on the embedded node or on the server that
// CARILLON_TEST_EVENTSTORE_URL names. CARILLON_TEST_CONVERSATIONS names another folder of conversations. With
// CARILLON_TEST_EVENTSTORE_REAL set, the server is no node of Carillon's, so that nothing may differ.
func TestRecordedConversations(t *testing.T) {
	t.Parallel()
	files := os.DirFS("testdata")
	if dir := os.Getenv("CARILLON_TEST_CONVERSATIONS"); dir != "" {
		files = os.DirFS(dir)
	}
	names, err := fs.Glob(files, "*.json")
	must.True(t, err == nil && len(names) != 0, "no conversations: %v", err)
	plain, secure, ours := servers(t)
	for _, name := range names {
		server := plain
		if name == accessFile {
			server = secure
		}
		list := must.Get(conversations.Load(files, name))(t)
		t.Run(name, func(t *testing.T) {
			if server == nil {
				t.Skip("the server has no TLS or another user")
			}
			for _, c := range list {
				t.Run(c.Name, func(t *testing.T) {
					if name != readAllFile {
						t.Parallel()
					}
					replay(t, *server, c, ours)
				})
			}
		})
	}
}

func replay(t *testing.T, server conversations.Server, c conversations.Conversation, ours bool) {
	t.Helper()
	err := conversations.Replay(t.Context(), server, c)
	switch {
	case c.Ours == "" || !ours:
		if err != nil {
			t.Errorf("%s: %s: %v", c.Area, c.Name, err)
		}
	case err == nil:
		t.Errorf("%s: %s: equal to the recorded server, though %q", c.Area, c.Name, c.Ours)
	default:
		t.Logf("differs as intended (%s): %v", c.Ours, err)
	}
}

// servers returns the server for conversations without access control and the one for those with it, which may be the
// same. ours reports whether they are Carillon's nodes.
func servers(t *testing.T) (plain, secure *conversations.Server, ours bool) {
	t.Helper()
	if address := os.Getenv("CARILLON_TEST_EVENTSTORE_URL"); address != "" {
		s := named(t, address)
		if s.TLS != nil && s.User == accessUser && s.Password == accessPassword {
			open := *s
			open.User, open.Password = "", "" // conversations about access say themselves who calls
			secure = &open
		}
		return s, secure, os.Getenv("CARILLON_TEST_EVENTSTORE_REAL") == ""
	}
	plain = &conversations.Server{Address: start(t, node.Config{})}
	certificate := selfSigned(t)
	secure = &conversations.Server{
		Address: start(t, node.Config{
			TLS:        &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
			User:       accessUser,
			Password:   accessPassword,
			GuessDelay: time.Millisecond,
		}),
		TLS: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a certificate that this test made
	}
	return plain, secure, true
}

func named(t *testing.T, address string) *conversations.Server {
	t.Helper()
	config, err := esdb.ParseConnectionString(address)
	if err != nil {
		t.Fatal("CARILLON_TEST_EVENTSTORE_URL can't be parsed")
	}
	s := &conversations.Server{Address: config.Address, User: config.Username, Password: config.Password}
	if s.Address == "" {
		s.Address = config.GossipSeeds[0].String()
	}
	if !config.DisableTLS {
		//nolint:gosec // as the address asks for
		s.TLS = &tls.Config{RootCAs: config.RootCAs, InsecureSkipVerify: config.SkipCertificateVerification}
	}
	return s
}

// start runs a node in memory until the test ends, and returns its address.
func start(t *testing.T, config node.Config) string {
	t.Helper()
	config.Dir, config.FS, config.Logger = "store", vfs.NewMem(), slog.New(slog.DiscardHandler)
	return nodetest.Listen(t, config)
}

func selfSigned(t *testing.T) tls.Certificate {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1),
		DNSNames:     []string{"localhost"},
		NotAfter:     time.Now().Add(time.Hour),
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// TestStrictNodeAnswersAsRecorded: the test server of the node repeats what a real server does after a stream was
// deleted, in which the node itself differs.
func TestStrictNodeAnswersAsRecorded(t *testing.T) {
	t.Parallel()
	list := must.Get(conversations.Load(os.DirFS("testdata"), "append-again.json"))(t)
	server := conversations.Server{Address: start(t, node.Config{Quirks: &stricttest.Strict{}})}
	for _, c := range list {
		t.Run(c.Name, func(t *testing.T) {
			t.Parallel()
			must.OK(t, conversations.Replay(t.Context(), server, c))
		})
	}
}
