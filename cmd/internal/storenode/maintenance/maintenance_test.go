package maintenance_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var silent = slog.New(slog.DiscardHandler)

const patience = 2 * time.Minute

// running is a node with its maintenance socket, as a server runs it.
type running struct {
	dir   string
	store *esdb.Store
	stop  func()
}

// shortDir is a directory whose path leaves room for a socket's name.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon") //nolint:usetesting // t.TempDir is too long for a socket
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func serve(t *testing.T, dir string) *running {
	t.Helper()
	n := must.Get(node.Open(node.Config{Dir: dir}))(t)
	socket, served := filepath.Join(shortDir(t), "s"), make(chan error, 1)
	go func() { served <- n.ListenUnix(socket) }()
	m := must.Get(maintenance.Serve(n, dir, socket, silent))(t)
	store := must.Get(esdb.OpenUnix(socket, silent))(t)
	r := &running{dir: dir, store: store}
	stopped := false
	r.stop = func() {
		if stopped {
			return
		}
		stopped = true
		m.Close()
		assert.OK(t, errors.Join(store.Close(), n.Close(), <-served))
	}
	t.Cleanup(r.stop)
	return r
}

func put(t *testing.T, store *esdb.Store, stream string, n int) {
	t.Helper()
	for i := range n {
		must.Get(store.Append(t.Context(), stream, eventstore.Revision(i-1), []eventstore.Proposed{{
			ID:   uuid.New(),
			Type: "x",
			Data: []byte(`{}`),
		}}))(t)
	}
}

// hide makes all of a stream but the last event unreadable.
func hide(t *testing.T, store *esdb.Store, stream string) {
	t.Helper()
	must.Get(store.AppendEntries(t.Context(), "$$"+stream, eventstore.NoStream, []esdb.Entry{{
		Recorded: eventstore.Recorded{ID: uuid.New(), Type: "$metadata", Data: []byte(`{"$maxCount":1}`)}, JSON: true,
	}}))(t)
}

func open(t *testing.T, dir string) maintenance.Node {
	t.Helper()
	n := must.Get(maintenance.Open(t.Context(), dir, silent))(t)
	return n
}

// tasks runs all of them on a node's directory that holds 50 events, 39 of them hidden.
func tasks(t *testing.T, dir string) {
	t.Helper()
	backup := filepath.Join(t.TempDir(), "backup")
	n := open(t, dir)
	must.OK(t, n.Backup(t.Context(), backup))
	assert.True(t, n.Backup(t.Context(), backup) != nil, "a backup was overwritten")
	reports := 0
	report, err := n.Verify(t.Context(), func(_, _ uint64) { reports++ })
	assert.True(t, err == nil && report.OK() && report.Events == 51, "verify: %+v, %v", report, err)
	assert.Equal(t, must.Get(n.Scavenge(t.Context(), nil))(t).Events, 39, "scavenged")
	if report, err := n.Verify(t.Context(), nil); err != nil || !report.OK() || report.Events != 12 {
		t.Errorf("verify after the scavenge: %+v, %v", report, err)
	}
	restored := filepath.Join(t.TempDir(), "restored", "eventstore")
	copied, checked := false, false
	report, err = maintenance.Restore(t.Context(), backup, restored, silent,
		func(_, _ uint64) { copied = true }, func(_, _ uint64) { checked = true })
	assert.True(t, err == nil && report.Events == 51 && copied && checked, "restore: %+v, %v", report, err)
	if report, err := open(t, restored).Verify(t.Context(), nil); err != nil || !report.OK() || report.Events != 51 {
		t.Errorf("verify of the restored: %+v, %v", report, err)
	}
	if _, err := maintenance.Restore(t.Context(), backup, restored, silent, nil, nil); err == nil ||
		!strings.Contains(err.Error(), "not empty") {
		t.Errorf("restore over data: %v", err)
	}
}

func filled(t *testing.T, dir string) *running {
	t.Helper()
	r := serve(t, dir)
	put(t, r.store, "a", 40)
	put(t, r.store, "b", 10)
	hide(t, r.store, "a")
	return r
}

func TestRunningNode(t *testing.T) {
	t.Parallel()
	r := filled(t, shortDir(t))
	tasks(t, r.dir)
	put(t, r.store, "c", 5) // it went on all the while
	info, err := os.Stat(filepath.Join(r.dir, "maintenance.sock"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("socket: %v, %v", info.Mode(), err)
	}
	if socket, running, err := maintenance.Protocol(t.Context(), r.dir); err != nil || !running || socket == "" {
		t.Errorf("protocol socket %q, %t, %v", socket, running, err)
	}
}

func TestUnusedDirectory(t *testing.T) {
	t.Parallel()
	r := filled(t, shortDir(t))
	r.stop()
	_, running, err := maintenance.Protocol(t.Context(), r.dir)
	assert.True(t, err == nil && !running, "running: %t, %v", running, err)
	tasks(t, r.dir)
}

func TestDirectoryWithLongName(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(shortDir(t), strings.Repeat("long", 30))
	r := filled(t, dir)
	link := must.Get(os.Readlink(filepath.Join(dir, "maintenance.sock")))(t)
	tasks(t, dir)
	r.stop()
	if _, err := os.Stat(filepath.Dir(link)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s is left over: %v", filepath.Dir(link), err)
	}
}

func TestSocketOfKilledProcess(t *testing.T) {
	t.Parallel()
	r := filled(t, shortDir(t))
	socket := filepath.Join(r.dir, "maintenance.sock")
	kept := socket + ".kept"
	if err := os.Rename(socket, kept); err != nil { // so that stopping does not remove it
		t.Fatal(err)
	}
	r.stop()
	must.OK(t, os.Rename(kept, socket))
	assert.Equal(t, must.Get(open(t, r.dir).Verify(t.Context(), nil))(t).Events, 51, "verify")
	again := serve(t, r.dir)
	tasks(t, again.dir)
}

// gate is a node whose tasks begin, and end on request.
type gate struct {
	maintenance.Node
	begun chan struct{}
}

func (g gate) Verify(ctx context.Context, progress node.Progress) (node.Report, error) {
	progress(1, 2)
	g.begun <- struct{}{}
	<-ctx.Done()
	return node.Report{}, ctx.Err()
}

func TestTasksRunOneAtATime(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	g := gate{begun: make(chan struct{})}
	m := must.Get(maintenance.Serve(g, dir, "", silent))(t)
	first, ended := open(t, dir), make(chan error, 1)
	verify := func(ctx context.Context) {
		_, err := first.Verify(ctx, func(done, total uint64) {
			if done != 1 || total != 2 {
				ended <- fmt.Errorf("progress %d of %d", done, total)
			}
		})
		ended <- err
	}
	ctx, cancel := context.WithCancel(t.Context())
	go verify(ctx)
	<-g.begun
	assert.Is(t, assert.Err(open(t, dir).Scavenge(t.Context(), nil)), maintenance.ErrBusy, "error")
	cancel() // the client goes, and with it the task
	assert.Is(t, <-ended, context.Canceled, "error")
	deadline := time.Now().Add(patience)
	for begun := false; !begun; {
		go verify(t.Context())
		select {
		case <-g.begun:
			begun = true
		case err := <-ended:
			must.True(t, errors.Is(err, maintenance.ErrBusy) && !time.Now().After(deadline), "%v", err)
		}
	}
	m.Close() // the server goes, and with it the task
	if err := <-ended; err == nil {
		t.Error("a task that was cut off succeeded")
	}
}

func TestNothingThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.OK(t, os.WriteFile(filepath.Join(dir, "letter.txt"), []byte("dear"), 0o600))
	assert.Is(t, assert.Err(maintenance.Open(t.Context(), dir, silent)), maintenance.ErrNoStore, "error")
	assert.Is(t, assert.Err(maintenance.Restore(t.Context(), dir, filepath.Join(t.TempDir(), "new"), silent, nil,
		nil)), maintenance.ErrNoStore, "error … want no store")
}

func TestDamagedBackupIsNotRestored(t *testing.T) {
	t.Parallel()
	r := filled(t, shortDir(t))
	r.stop()
	damaged := 0
	for _, pattern := range []string{"*.sst", "*.log"} {
		files := must.Get(filepath.Glob(filepath.Join(r.dir, pattern)))(t)
		for _, file := range files {
			data, err := os.ReadFile(file) //nolint:gosec // the test's own
			must.OK(t, err)
			if pattern == "*.sst" && len(data) > 200 {
				for i := 20; i < 60; i++ {
					data[i] ^= 0x5a
				}
				damaged++
			}
			must.OK(t, os.WriteFile(file, data, 0o600))
		}
	}
	must.True(t, damaged != 0, "found nothing to damage")
	parent := t.TempDir()
	report, err := maintenance.Restore(t.Context(), r.dir, filepath.Join(parent, "new"), silent, nil, nil)
	if err == nil && report.OK() {
		t.Errorf("restored: %+v", report)
	}
	if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
		t.Errorf("left over: %v, %v", left, err)
	}
}

func TestRestore_removesLeftovers(t *testing.T) {
	t.Parallel()
	r := filled(t, shortDir(t))
	backup, parent := filepath.Join(t.TempDir(), "backup"), t.TempDir()
	must.OK(t, open(t, r.dir).Backup(t.Context(), backup))
	names := func() (list []string) {
		t.Helper()
		entries := must.Get(os.ReadDir(parent))(t)
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	for _, dir := range []string{".store-restoring-123", ".store-restoring-mine", ".other-restoring-1"} {
		must.OK(t, os.MkdirAll(filepath.Join(parent, dir, "deep"), 0o700))
	}
	others := []string{".other-restoring-1", ".store-restoring-mine"}
	// A running restore keeps its directory, while another comes and goes.
	begun, goOn, slow := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	dir := filepath.Join(parent, "store")
	go func() {
		waited := false
		_, err := maintenance.Restore(t.Context(), backup, dir, silent, func(_, _ uint64) {
			if !waited {
				waited = true
				begun <- struct{}{}
				<-goOn
			}
		}, nil)
		slow <- err
	}()
	<-begun
	if list := names(); len(list) != 3 || slices.Contains(list, ".store-restoring-123") {
		t.Errorf("while one is at work: %v", list)
	}
	assert.Equal(t, must.Get(maintenance.Restore(t.Context(), backup, dir, silent, nil, nil))(t).Events, 51, "restore")
	close(goOn)
	if err := <-slow; err == nil || !strings.Contains(err.Error(), "take the place of") {
		t.Errorf("the slower of two: %v, want that it was too late", err)
	}
	assert.Slices(t, names(), append(others, "store"), "afterwards")
}
