//go:build nightly

package node_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The torture test kills a node with SIGKILL again and again while writers append. Each writer owns a stream and
// repeats an append, with the same ids and the same expected revision, until it is acknowledged. In the end each
// stream must hold exactly what was acknowledged, in order: nothing lost, nothing twice.
//
//	go test -tags nightly -run TestTorture -timeout 30m ./eventstore/node
//
// CARILLON_TORTURE_KILLS sets the number of kills; the default is 100.

const (
	tortureDir     = "CARILLON_TORTURE_DIR"
	tortureSocket  = "CARILLON_TORTURE_SOCKET"
	tortureKills   = "CARILLON_TORTURE_KILLS"
	tortureWriters = 32
)

// TestTortureChild is the node that is killed: the test binary runs itself with it.
func TestTortureChild(t *testing.T) { //nolint:paralleltest // the only test of its process
	dir := os.Getenv(tortureDir)
	if dir == "" {
		t.Skip("only run by TestTorture")
	}
	n, err := node.Open(node.Config{Dir: dir, MemTableBytes: 1 << 20}) // small, so that kills also hit flushes
	must.OK(t, err)
	must.OK(t, n.ListenUnix(os.Getenv(tortureSocket)))
}

func startChild(t *testing.T, dir, socket string) *exec.Cmd {
	t.Helper()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTortureChild$")
	child.Env = append(os.Environ(), tortureDir+"="+dir, tortureSocket+"="+socket)
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	child.Stderr, child.Stdout = os.Stderr, os.Stderr
	must.OK(t, child.Start())
	for deadline := time.Now().Add(patience); ; {
		connection, err := net.Dial("unix", socket)
		if err == nil {
			_ = connection.Close()
			return child
		}
		must.True(t, !time.Now().After(deadline), "the node does not come up: %v", err)
		<-time.After(2 * time.Millisecond)
	}
}

func TestTorture(t *testing.T) { //nolint:paralleltest // the only test of its run
	kills := 100
	if value, err := strconv.Atoi(os.Getenv(tortureKills)); err == nil {
		kills = value
	}
	base := must.Get(os.MkdirTemp("", "torture"))(t)
	defer func() { _ = os.RemoveAll(base) }()
	dir, socket := filepath.Join(base, "data"), filepath.Join(base, "s")

	var current atomic.Pointer[esdb.Client]
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	acknowledged := make([][]esdb.EventData, tortureWriters)
	var writing sync.WaitGroup
	for writer := range tortureWriters {
		writing.Go(func() { acknowledged[writer] = torment(ctx, t, &current, writer) })
	}
	for kill := range kills {
		child := startChild(t, dir, socket)
		current.Store(leakClient(t, socket))
		<-time.After(time.Duration(20+rand.IntN(150)) * time.Millisecond) // #nosec G404 -- a test
		must.OK(t, child.Process.Kill())
		var killed *exec.ExitError
		err := child.Wait()
		must.True(t, errors.As(err, &killed) && !killed.Exited(), "kill %d: the node had ended by itself: %v", kill, err)
	}
	cancel()
	writing.Wait()

	report, err := node.Verify(context.Background(), node.Config{Dir: dir}, nil)
	must.True(t, err == nil && report.OK(), "verify: %+v, %v", report, err)
	last := serve(t, node.Config{Dir: dir})
	defer last.stop(t) // before its directory is removed
	client := last.client(t)
	total := 0
	for writer, want := range acknowledged {
		total += len(want)
		got, err := readStream(client, tortureStream(writer), esdb.ReadStreamOptions{From: esdb.Start{}}, 1<<40)
		must.True(t, err == nil || len(want) == 0, "%v", err)
		// One append may have been written and not acknowledged.
		assert.True(t, len(got) >= len(want) && len(got) <= len(want)+tortureBatch,
			"writer %d: %d events, %d acknowledged", writer, len(got), len(want))
		for i := range min(len(got), len(want)) {
			if got[i].Event.EventID != want[i].EventID || got[i].Event.EventNumber != uint64(i) {
				t.Fatalf("writer %d: event %d is %s, acknowledged was %s", writer, i, got[i].Event.EventID, want[i].EventID)
			}
		}
	}
	t.Logf("%d kills, %d events acknowledged, all found once; %d events and %d streams verified", kills, total,
		report.Events, report.Streams)
	assert.True(t, total != 0, "nothing was ever acknowledged")
}

// leakClient connects a client that is never closed: calls that hang in it would panic on closing.
func leakClient(t *testing.T, socket string) *esdb.Client {
	t.Helper()
	config := must.Get(esdb.ParseConnectionString("esdb://localhost:2113?tls=false"))(t)
	config.Address, config.Logger = "unix://"+socket, esdb.NoopLogging()
	client := must.Get(esdb.NewClient(config))(t)
	return client
}

const tortureBatch = 3

func tortureStream(writer int) string { return fmt.Sprintf("torture-%d", writer) }

// torment appends until ctx is done, and returns what was acknowledged.
func torment(
	ctx context.Context, t *testing.T, current *atomic.Pointer[esdb.Client], writer int,
) (done []esdb.EventData) {
	for ctx.Err() == nil {
		list := events(1 + rand.IntN(tortureBatch)) // #nosec G404 -- a test
		expected := esdb.ExpectedRevision(esdb.NoStream{})
		if len(done) > 0 {
			expected = esdb.Revision(uint64(len(done) - 1))
		}
		for ctx.Err() == nil {
			client := current.Load()
			if client == nil {
				<-time.After(time.Millisecond)
				continue
			}
			result, err := attempt(ctx, client, tortureStream(writer), expected, list)
			if err == nil {
				done = append(done, list...)
				assert.True(t, result.NextExpectedVersion == uint64(len(done)-1),
					"writer %d: acknowledged up to %d, want %d", writer, result.NextExpectedVersion, len(done)-1)
				break
			}
			if code(err) == esdb.ErrorCodeWrongExpectedVersion {
				t.Errorf("writer %d: its stream is not at its last append: %v", writer, err)
				return done
			}
			<-time.After(2 * time.Millisecond)
		}
	}
	return done
}

// attempt gives up after a second whatever the client does: once its node has been away for a while, its calls hang
// past their deadlines.
func attempt(
	ctx context.Context, client *esdb.Client, stream string, expected esdb.ExpectedRevision, list []esdb.EventData,
) (*esdb.WriteResult, error) {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	type outcome struct {
		result *esdb.WriteResult
		err    error
	}
	ended := make(chan outcome, 1)
	go func() {
		result, err := client.AppendToStream(ctx, stream, esdb.AppendToStreamOptions{ExpectedRevision: expected}, list...)
		ended <- outcome{result, err}
	}()
	select {
	case o := <-ended:
		return o.result, o.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
