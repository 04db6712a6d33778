package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// standalone runs "carillon eventstore" and returns its connection string.
func standalone(t *testing.T, dir string) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	out, in := io.Pipe()
	var stderr bytes.Buffer
	ended := make(chan int, 1)
	go func() {
		code := run(ctx, []string{"eventstore", "--addr", "127.0.0.1:0", "--data", dir, "--log-level", "error"},
			terminal{in: strings.NewReader(""), out: in, err: &stderr})
		_ = in.Close()
		ended <- code
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.Equal(t, <-ended, 0, "exit code … %s", &stderr)
	})
	t.Cleanup(stop)
	line, err := bufio.NewReader(out).ReadString('\n')
	must.True(t, err == nil, "it does not say how to connect: %v, %s", err, stderr.String())
	return strings.TrimSpace(line), stop
}

func publishThings(t *testing.T, url string, n int) {
	t.Helper()
	store := must.Get(esdb.Open(url, slog.New(slog.DiscardHandler)))(t)
	defer func() { _ = store.Close() }()
	for i := range n {
		must.Get(store.Append(t.Context(), fmt.Sprintf("thing-%d", i%7), eventstore.Revision(i/7-1),
			[]eventstore.Proposed{{ID: uuid.New(), Type: "x", Data: []byte(`{}`)}}))(t)
	}
}

// answer runs a command line that must succeed and decodes its JSON.
func answer[T any](t *testing.T, args ...string) (decoded T) {
	t.Helper()
	code, out, errors := runIn(t.Context(), "", append(args, "--json")...)
	must.Equal(t, code, 0, "%s: exit code … %s", args, errors)
	if err := json.Unmarshal([]byte(out), &decoded); err != nil {
		t.Fatalf("%s: %v in %s", args, err, out)
	}
	return decoded
}

func TestEventstoreCommands(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	url, stop := standalone(t, at("node"))
	publishThings(t, url, 70)
	if got := answer[node.Report](t, "eventstore", "verify", "--data", at("node")); got.Events != 70 ||
		got.Streams != 7 || got.Faults != 0 {
		t.Errorf("verified %+v", got)
	}
	if got := answer[backedUp](t, "eventstore", "backup", at("backup"), "--data", at("node")); got.Bytes == 0 ||
		got.Dir != at("backup") {
		t.Errorf("backed up %+v", got)
	}
	assert.Equal(t, answer[node.Scavenged](t, "eventstore", "scavenge", "--data", at("node")).Events, 0, "scavenged")
	assert.Equal(t, answer[node.Report](t, "eventstore", "restore", at("backup"), "--data-dir", at("data")).Events, 70,
		"restored")
	if got := answer[copying.Result](t, "eventstore", "copy", "--from", url, "--to",
		at("copy")); got.Copied != 70 || got.Compared != 70 {
		t.Errorf("copied %+v", got)
	}
	fails(t, 1, "connection string", "eventstore", "copy", "--from", at("node"), "--to", at("copy"))
	stop()
	if got := answer[copying.Result](t, "eventstore", "copy", "--from", at("node"), "--to", at("copy"), "--streams",
		at("streams")); !got.Resumed || got.Copied != 0 || got.Compared != 70 || got.LeftOut == nil {
		t.Errorf("copied again %+v", got)
	} else if lines, err := os.ReadFile(at("streams")); err != nil || got.Streams == 0 ||
		uint64(bytes.Count(lines, []byte(`"sha256":"`))) != got.Streams { //nolint:gosec // not negative
		t.Errorf("streams: %s, %v", lines, err)
	}
	prints(t, "all is well", "eventstore", "verify", "--data-dir", at("data"))
	for _, args := range [][]string{
		{"verify", "--data", at("nothing")},
		{"backup", at("backup"), "--data", at("node")},
		{"restore", at("backup"), "--data", at("node")},
		{"copy", "--from", at("nothing"), "--to", at("copy")},
	} {
		fails(t, 1, "carillon: ", append([]string{"eventstore"}, args...)...)
	}
}

// Root writes nothing into a stopped server's directory, whose user could not read it.
func TestEventstoreOfAnotherUser(t *testing.T) {
	t.Parallel()
	const nobody = 65534
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := shortDir(t)
	data := filepath.Join(dir, "data")
	node := filepath.Join(data, "eventstore")
	url, stop := standalone(t, node)
	publishThings(t, url, 7)
	stop()
	each := func(of func(path string, owner uint32)) {
		must.OK(t, filepath.WalkDir(data, func(path string, entry fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			info, err := entry.Info()
			if stat, ok := info.Sys().(*syscall.Stat_t); ok {
				of(path, stat.Uid)
			}
			return err
		}))
	}
	each(func(path string, _ uint32) {
		must.OK(t, os.Chown(path, nobody, nobody))
	})
	to := filepath.Join(dir, "to")
	for _, args := range [][]string{
		{"backup", to, "--data-dir", data},
		{"restore", dir, "--data-dir", data},
		{"eventstore", "backup", to, "--data-dir", data},
		{"eventstore", "scavenge", "--data-dir", data},
		{"eventstore", "repair", "--data-dir", data},
		{"eventstore", "restore", dir, "--data", filepath.Join(data, "another")},
		{"eventstore", "copy", "--from", node, "--to", to},
	} {
		fails(t, 1, "as its owner", args...)
	}
	prints(t, "", "eventstore", "verify", "--data-dir", data)
	each(func(path string, owner uint32) {
		assert.Equal(t, owner, nobody, "%s belongs to user", path)
	})
}

// A flipped bit in the log of a killed node: the node says so and doesn't start, repair lists what is lost, and only
// with --accept-loss the node starts again.
func TestRepairOfADamagedLog(t *testing.T) {
	t.Parallel()
	running, damaged := t.TempDir(), t.TempDir()
	url, stop := standalone(t, running)
	publishThings(t, url, 70)
	copyFiles(t, running, damaged) // what kill -9 leaves
	stop()
	logs, err := filepath.Glob(filepath.Join(damaged, "*.log"))
	must.True(t, err == nil && len(logs) != 0, "%v %v", logs, err)
	content := must.Get(os.ReadFile(logs[len(logs)-1]))(t)
	content[len(content)/4] ^= 1
	must.OK(t, os.WriteFile(logs[len(logs)-1], content, 0o600))
	for _, task := range [][]string{{"verify"}, {"repair"}, {"run", "--addr", "127.0.0.1:0"}} {
		args := append(append([]string{"eventstore"}, task...), "--data", damaged)
		code, out, errors := runIn(t.Context(), "", args...)
		assert.True(t, code != 0 && strings.Contains(errors, "--accept-loss"),
			"%s: exit code %d: %s%s", task, code, out, errors)
		if task[0] == "repair" && (!strings.Contains(out, "lost: thing-") || !strings.Contains(out, "is damaged at byte")) {
			t.Errorf("it doesn't list what is lost: %s", out)
		}
	}
	done := answer[repaired](t, "eventstore", "repair", "--accept-loss", "--data", damaged)
	lost := uint64(0)
	for _, l := range done.Lost {
		lost += l.Last - l.First + 1
	}
	report := answer[node.Report](t, "eventstore", "verify", "--data", damaged)
	if !done.Repaired || lost == 0 || report.Faults > 0 || report.Events+lost > 70 || report.Events+lost < 70 &&
		!done.Unnamed {
		t.Errorf("%d events of 70 are left: %+v, %+v", report.Events, done, report)
	}
	assert.Equal(t, len(must.Get(os.ReadDir(filepath.Join(damaged, "damaged")))(t)), 1, "kept")
}

// copyFiles copies a directory's regular files: a running node has a socket among them.
func copyFiles(t *testing.T, from, to string) {
	t.Helper()
	entries := must.Get(os.ReadDir(from))(t)
	for _, entry := range entries {
		if !entry.Type().IsRegular() {
			continue
		}
		content, err := os.ReadFile(filepath.Join(from, entry.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(to, entry.Name()), content, 0o600)
		}
		must.OK(t, err)
	}
}
