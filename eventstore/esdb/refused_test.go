package esdb_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"iter"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// overTCP is a listener of which the node takes its connections for TCP's, and so asks for TLS.
type overTCP struct{ *pipes }

// Addr implements net.Listener.
func (overTCP) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2113} }

// A refused caller gets the reason: waiting would not help. No error contains the password.
func TestRefusal_reported(t *testing.T) {
	t.Parallel()
	authority := httptest.NewTLSServer(nil) // for its certificate
	authority.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	must.OK(t, os.WriteFile(file, certificate, 0o600))
	for name, test := range map[string]struct{ url, want string }{
		"right":               {"esdb://admin:right@127.0.0.1:2113?tlsCAFile=" + file, ""},
		"right, by discovery": {"esdb+discover://admin:right@127.0.0.1:2113?tlsCAFile=" + file, ""},
		"wrong password": {
			"esdb://admin:s3cret@127.0.0.1:2113?tlsCAFile=" + file, "Unauthenticated: the user or the password is wrong",
		},
		"no password":        {"esdb://127.0.0.1:2113?tlsCAFile=" + file, "it refuses the user or the password"},
		"unknown authority":  {"esdb://admin:right@127.0.0.1:2113", "its certificate is not trusted"},
		"unknown, discovery": {"esdb+discover://admin:right@127.0.0.1:2113", "its certificate is not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { refused(t, authority.TLS, test.url, test.want) })
		})
	}
}

func refused(t *testing.T, secured *tls.Config, url, want string) {
	t.Helper()
	n := must.Get(node.Open(node.Config{
		Dir:        "store",
		FS:         vfs.NewMem(),
		TLS:        secured,
		User:       "admin",
		Password:   "right",
		GuessDelay: time.Millisecond,
	}))(t)
	listener, served := overTCP{newPipes()}, make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	store := must.Get(esdb.OpenDialed(url, listener.dial, slog.New(slog.DiscardHandler)))(t)
	defer func() {
		assert.OK(t, errors.Join(store.Close(), n.Close(), <-served))
	}()
	for what, ask := range map[string]func() error{
		"append": func() error { return add(t.Context(), store, uuid.New()) },
		"head":   func() error { _, err := store.Head(t.Context()); return err },
		"subscribe": func() (err error) {
			for _, err = range store.Subscribe(t.Context(), eventstore.Start, eventstore.Filter{}) {
				break
			}
			return err
		},
	} {
		err := ask()
		switch {
		case want == "" && err == nil:
		case want == "" || !errors.Is(err, eventstore.ErrRefused) || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", what, err, want)
		case strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: the error says the password: %v", what, err)
		}
	}
}

func TestConnectionStrings(t *testing.T) {
	t.Parallel()
	empty := filepath.Join(t.TempDir(), "empty.pem")
	must.OK(t, os.WriteFile(empty, []byte("no certificate"), 0o600))
	for connection, want := range map[string]string{
		"esdb://localhost:2113?tls=false":                                     "",
		"esdb://localhost?tls=false":                                          "",
		"esdb://localhost:2113/?tls=false":                                    "",
		"esdb://admin:pa%2Fss@localhost:2113?tls=true":                        "",
		"esdb+discover://a.example:2113?keepAliveTimeout=4000":                "",
		"esdb://a.example:2113,b.example:2113,c.example?tls=true":             "",
		"esdb://user:pass@a.example:2113,b.example:2113?TLSVERIFYCERT=false":  "",
		"esdb://localhost:2113?nodePreference=leader&connectionName=carillon": "",
		"esdb://localhost:2113?tlsCAFil=/etc/ca.pem":                          `"tlsCAFil" is not an option; there are tls,`,
		"esdb://localhost:2113?tls=maybe":                                     "Setting 'tls' must be either true or false",
		"esdb://localhost:2113?keepAliveInterval=10s":                         `Invalid keepAliveInterval "10s"`,
		"esdb://localhost:2113?nodePreference=follower":                       `can only be leader, not "follower"`,
		"esdb://localhost:2113?tlsCAFile=/nowhere/ca.pem":                     "tlsCAFile: open /nowhere/ca.pem",
		"esdb://localhost:2113?tlsCAFile=" + empty:                            "holds no certificate",
		"esdb://localhost:2113?userCertFile=/nowhere/c.pem":                   "both userCertFile and userKeyFile",
		"esdb://localhost:2113/carillon?tls=false":                            `a path, "/carillon", after "localhost:2113"`,
		"esdb://a.example:2113,b.example:2113/carillon":                       `it has a path, "/carillon"`,
		"kurrentdb+discover://a.example:2113?tls=true":                        "",
		"http://localhost:2113":                                               "it must be of the form esdb://",
		"localhost:2113":                                                      "it must be of the form esdb://",
		"esdb://localhost:port":                                               "it must be of the form esdb://",
		"esdb://admin:top?secret@localhost:2113?tls=true":                     "in a password @, /, ?, # and % are",
		"esdb://admin:top/secret@localhost:2113":                              "in a password @, /, ?, # and % are",
		"esdb://admin@corp:top@secret@localhost:2113":                         "",
		"esdb://admin:top%secret@localhost:2113":                              "it must be of the form esdb://",
	} {
		store, err := esdb.Open(connection, slog.New(slog.DiscardHandler))
		switch {
		case want == "" && err == nil:
			must.OK(t, store.Close())
		case want == "" || err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%s: error = %v, want %q", connection, err, want)
		case strings.Contains(err.Error(), "secret"):
			t.Errorf("%s: the error repeats a part of the password: %v", connection, err)
		}
		var file *os.PathError
		if strings.Contains(want, "open ") && !errors.As(err, &file) {
			t.Errorf("%s: %v does not say what is wrong with the file", connection, err)
		}
	}
}

func TestMissingServer_reportedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }
		store, err := esdb.OpenDialed("esdb://127.0.0.1:2113?tls=false", refused, slog.New(slog.DiscardHandler))
		must.OK(t, err)
		_, err = store.Head(t.Context())
		assert.True(t, errors.Is(err, eventstore.ErrUnavailable) && strings.Contains(err.Error(), "no server in"),
			"error = %v, want unavailable with no server", err)
		must.OK(t, store.Close())
	})
}

// A server that is slow is waited for longer than a missing one. A caller that waits less than the server needs gets
// its own deadline as the error, of calls and of streams.
func TestSlowServer_waitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		through(t, listener, nil, slog.New(slog.DiscardHandler), func(store *esdb.Store) {
			must.Get(store.Head(t.Context()))(t)
			listener.stall = make(chan struct{})
			store.Reconnect()
			slow(t, store, listener.stall)
		})
	})
}

func slow(t *testing.T, store *esdb.Store, stall chan struct{}) {
	t.Helper()
	appended := make(chan error, 1)
	go func() {
		proposed := eventstore.Proposed{ID: uuid.New(), Type: "counter.counted.v1", Data: []byte(`{}`)}
		_, err := store.Append(t.Context(), "counter-1", eventstore.NoStream, []eventstore.Proposed{proposed})
		appended <- err
	}()
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var readErr error
	for _, readErr = range store.Read(hurried, "counter-2", 0) {
		break
	}
	_, headErr := store.Head(hurried)
	for what, err := range map[string]error{"read": readErr, "head": headErr} {
		assert.True(t, errors.Is(err, context.DeadlineExceeded) && errors.Is(err, eventstore.ErrUnavailable),
			"%s: error = %v, want unavailable by the own deadline", what, err)
	}
	time.Sleep(4 * time.Second) // by the clock of the bubble, and longer than a missing server is waited for
	select {
	case err := <-appended:
		t.Fatalf("an answer, %v, from a server that gives none", err)
	default:
	}
	close(stall)
	must.OK(t, <-appended)
}

// A server that takes connections and breaks them, as while it starts, is waited for.
func TestConnectionsBroken_retried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		listener.breaks = 40 // by ten a second: longer than a missing server is waited for
		through(t, listener, nil, slog.New(slog.DiscardHandler), func(store *esdb.Store) {
			_, err := store.Head(t.Context())
			assert.True(t, err == nil, "%v", err)
		})
	})
}

// Both contracts hold on a node that is as unkind as real servers are, and on a node that takes no batches.
func TestContractOnStrictNodes(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{
		"23.10":                    {},
		"25.0":                     {Later: true},
		"a server without batches": {NoBatches: true},
		"one that refuses them":    {NoBatches: true, SaysBatches: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			storetest.Run(t, nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)))
		})
	}
}

// A position between two events is not one that a server knows, and no checkpoint that it sends is one of these.
func TestEveryCheckpointCanBeResumedFrom(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{"23.10": {}, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			resumed(t, nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)))
		})
	}
}

func resumed(t *testing.T, store *esdb.Store) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range 40 {
		for _, category := range []string{"mine-", "other-", "other-"} {
			event := eventstore.Proposed{ID: uuid.New(), Type: "thing.happened.v1", Data: bytes.Repeat([]byte(" "), 4<<10)}
			stream := category + uuid.NewString()
			must.Get(store.Append(ctx, stream, eventstore.NoStream, []eventstore.Proposed{event}))(t)
		}
	}
	rest := func(after eventstore.Position) (positions []eventstore.Position, events int) {
		for message, err := range store.Subscribe(ctx, after, eventstore.Categories("mine")) {
			switch {
			case err != nil:
				t.Fatalf("after %s: %v", after, err)
			case message.CaughtUp:
				return positions, events
			case message.Event != nil:
				events++
			case !after.Before(message.Position):
				t.Errorf("a checkpoint at %s came after %s", message.Position, after)
			}
			after = message.Position
			positions = append(positions, after)
		}
		t.Fatal("the subscription ended")
		return nil, 0
	}
	all, total := rest(eventstore.Start)
	must.Equal(t, total, 40, "events")
	for _, position := range all {
		_, before := 0, 0
		for message, err := range store.All(ctx, eventstore.Start) {
			must.OK(t, err)
			if strings.HasPrefix(message.Stream, "mine-") && !position.Before(message.Position) {
				before++
			}
		}
		_, more := rest(position)
		assert.True(t, before+more == 40, "%d events up to %s and %d after it, want 40 together", before, position, more)
	}
	var between eventstore.Position
	for first := range store.All(ctx, eventstore.Start) {
		between = eventstore.Position{Commit: first.Position.Commit + 1, Prepare: first.Position.Commit + 1}
		break
	}
	for _, err := range store.Subscribe(ctx, between, eventstore.Filter{}) {
		assert.Is(t, err, eventstore.ErrInvalidPosition, "a subscription from between two events")
		break
	}
	for name, read := range map[string]iter.Seq2[esdb.Entry, error]{
		"forwards": store.All(ctx, between), "backwards": store.Backwards(ctx, between),
	} {
		for _, err := range read {
			assert.Is(t, err, eventstore.ErrInvalidPosition, "a read %s from between two events", name)
			break
		}
	}
}

// TestSubscribingBeyondTheEnd: nothing comes until the log has grown past the position. Later servers send nothing, and
// what earlier ones send is not after it.
func TestSubscribingBeyondTheEnd(t *testing.T) {
	t.Parallel()
	for name, strict := range map[string]*stricttest.Strict{"plain": nil, "23.10": {}, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			store, stream := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler)), "thing-"+uuid.NewString()
			add := func(revision eventstore.Revision) eventstore.Position {
				event := eventstore.Proposed{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte(`{}`)}
				appended := must.Get(store.Append(ctx, stream, revision-1, []eventstore.Proposed{event}))(t)
				return appended.Position
			}
			beyond := add(0)
			beyond.Commit, beyond.Prepare = beyond.Commit+1000, beyond.Prepare+1000
			first := eventstore.Revision(1)
			for message, err := range store.Subscribe(ctx, beyond, eventstore.Categories("thing")) {
				switch {
				case err != nil:
					t.Fatal(err)
				case message.CaughtUp && first == 1:
					for revision, more := eventstore.Revision(1), true; more; revision++ {
						if more = !beyond.Before(add(revision)); more {
							first = revision + 1
						}
					}
				case message.Event != nil:
					assert.Equal(t, message.Event.Revision, first, "revision … came first")
					return
				}
			}
		})
	}
}
