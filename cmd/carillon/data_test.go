package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/eventstore/copying"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// elsewhere makes a data directory and a cluster of it outside, as root's server does.
func elsewhere(t *testing.T) (data, base, home string) {
	t.Helper()
	dir := must.Get(filepath.EvalSymlinks(t.TempDir()))(t)
	data, base = filepath.Join(dir, "data"), filepath.Join(dir, "clusters")
	home = filepath.Join(base, "0123-abcd")
	for path, content := range map[string]string{
		filepath.Join(home, "owner"):                filepath.Join(data, "postgres") + "\n",
		filepath.Join(home, "pgdata", "PG_VERSION"): "15\n",
		filepath.Join(data, "master.key"):           "hunter2\n", filepath.Join(data, "admin.token"): "hunter2\n",
		filepath.Join(data, "postgres", "postgres.log"): "", filepath.Join(data, "keys", "about"): "",
		filepath.Join(data, "eventstore", "CURRENT"): "",
	} {
		must.OK(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.OK(t, os.WriteFile(path, []byte(content), 0o600))
	}
	must.OK(t, os.Symlink(home, filepath.Join(data, "postgres", "cluster-home")))
	return data, base, home
}

func gone(path string) bool {
	_, err := os.Lstat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// TestDataIsRemovedWithItsCluster: only when it is meant, after it was said what goes.
func TestDataIsRemovedWithItsCluster(t *testing.T) {
	t.Parallel()
	data, base, home := elsewhere(t)
	code, out, failed := runIn(t.Context(), "", "data", "remove", data)
	for _, want := range []string{"would remove " + data, "would remove " + home, "THE MASTER KEY", "THE DATA KEYS",
		"THE KEY STORE", "THE EVENTS"} {
		assert.True(t, code == 1 && strings.Contains(out, want) && strings.Contains(failed, "--yes"),
			"without --yes: exit %d, %s\n%s; want %q", code, failed, out, want)
	}
	assert.True(t, !strings.Contains(out, "hunter2"), "it shows a secret: %s", out)
	fails(t, 1, "in use by the data directory "+data, "data", "remove", home, "--yes")
	must.True(t, !gone(data) && !gone(home), "it was removed")
	prints(t, `"removed": true`, "data", "remove", data, "--yes", "--json")
	assert.True(t, gone(data) && gone(home) && !gone(base), "it was not removed")
}

// TestClustersLeftBehindAreNamedAndRemoved: data list names them; a directory that is none of a server's is left
// alone, and so is the cluster of another directory that a copy's link leads to.
func TestClustersLeftBehindAreNamedAndRemoved(t *testing.T) {
	t.Parallel()
	data, base, home := elsewhere(t)
	lines := func() string { return prints(t, "", "data", "list", "--clusters-dir", base) }
	if got := lines(); !strings.Contains(got, home) || !strings.Contains(got, "stopped") ||
		strings.Contains(got, leftBehind) {
		t.Errorf("named as %s", got)
	}
	copied := filepath.Join(filepath.Dir(data), "copy")
	must.OK(t, os.CopyFS(copied, os.DirFS(filepath.Join(data, "keys"))))
	fails(t, 1, "neither a data directory nor", "data", "remove", copied, "--yes")
	must.OK(t, os.Mkdir(filepath.Join(copied, "postgres"), 0o700))
	must.OK(t, os.Symlink(home, filepath.Join(copied, "postgres", "cluster-home")))
	prints(t, "", "data", "remove", copied, "--yes")
	assert.True(t, gone(copied) && !gone(home), "a copy is there, or its cluster is gone")
	must.OK(t, os.RemoveAll(data))
	if got := lines(); !strings.Contains(got, leftBehind) || !strings.Contains(got, "carillon data remove "+home) {
		t.Errorf("named as %s", got)
	}
	code, out, failed := runIn(t.Context(), "", "data", "remove", home)
	assert.True(t, code == 1 && strings.Contains(out, "THE DATA KEYS") && !gone(home),
		"without --yes: exit %d, %s\n%s", code, failed, out)
	prints(t, "", "data", "remove", home, "--yes")
	if got := lines(); !gone(home) || got != "no clusters outside data directories\n" {
		t.Errorf("named as %s", got)
	}
}

func TestDataOfARunningServerStays(t *testing.T) {
	t.Parallel()
	s := open(t)
	fails(t, 1, "a server is running", "data", "remove", s.server[1], "--yes")
	assert.True(t, !gone(s.server[1]), "it is gone")
}

// named is a server of events that is as unkind as real ones are, reached by its address.
func named(t *testing.T, dir string) (url string) {
	t.Helper()
	return "esdb://" + nodetest.Listen(t, node.Config{Dir: dir, Quirks: &stricttest.Strict{}}) + "?tls=false"
}

// TestBackupAndRestoreOfNamedServers: event store, Postgres and key store are all elsewhere; a backup that is made
// while the server runs comes back in others, which were empty.
func TestBackupAndRestoreOfNamedServers(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	elsewhere := func(name string) (settings []string, database string, change func(*config.Config)) {
		t.Helper()
		store, database, keys := named(t, at(name+"-store")), pgtest.URL(t), at(name+"-keys")
		return []string{"--data-dir", at(name), "--eventstore-url", store, "--database-url", database,
				"--key-store", keys}, database,
			func(c *config.Config) { c.EventStoreURL, c.KeyStore = config.Address(store), config.Address(keys) }
	}
	old, database, change := elsewhere("old")
	url, key, stop := server(t, at("old"), database, change)
	const hooks, body = "/events/destinations/",
		`{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook","headers":{"x-key":"k"}}}`
	for _, name := range []string{"crm", "erp", "gone"} {
		ask(t, key, http.MethodPut, url+hooks+name, body, http.StatusCreated)
	}
	ask(t, key, http.MethodDelete, url+hooks+"gone", "", http.StatusOK)
	want := ask(t, key, http.MethodGet, url+hooks+"crm/secrets", "", http.StatusOK)
	made := answer[backup.Manifest](t, append([]string{"backup", at("backup")}, old...)...)
	assert.True(t, made.Keys == 2 && made.Events != 0, "backed up %+v", made)
	stop()

	fresh, database, change := elsewhere("new")
	copyMasterKey(t, at("old"), at("new"))
	restored := answer[backup.Manifest](t, append([]string{"restore", at("backup")}, fresh...)...)
	assert.True(t, restored.Keys == made.Keys && restored.Events == made.Events && restored.Streams == made.Streams,
		"restored %+v of %+v", restored, made)
	url, key, stop = server(t, at("new"), database, change, func(cfg *config.Config) { cfg.AfterRestore = true })
	defer stop()
	assert.Equal(t, ask(t, key, http.MethodGet, url+hooks+"crm/secrets", "", http.StatusOK), want, "the secrets")
	ask(t, key, http.MethodGet, url+hooks+"gone", "", http.StatusNotFound)
}

// A copy that was resumed at 60 % of the log shows the time left by its present rate, not by its starting point.
func TestProgressOfACopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newCopyProgress(terminal{err: &out})
		for second := range uint64(41) {
			p.report(copying.Progress{
				Phase:  copying.PhaseCopy,
				Done:   600_000 + 5000*second,
				Total:  1_000_000,
				Events: 1200 * second,
			})
			time.Sleep(time.Second)
		}
		p.report(copying.Progress{Phase: copying.PhaseDescribe, Done: 0, Total: 10})
		time.Sleep(20 * time.Second)
		p.report(copying.Progress{
			Phase:  copying.PhaseDescribe,
			Done:   5,
			Total:  10,
			Events: 5,
		})
		p.end()
		want := strings.Join([]string{
			"copying: 65.0 %, 1200 events/s, about 1m10s left",
			"copying: 70.0 %, 1200 events/s, about 1m0s left",
			"copying: 75.0 %, 1200 events/s, about 50s left",
			"copying: 80.0 %, 1200 events/s, about 40s left",
			"setting metadata: 50.0 %, 0 streams/s, about 20s left",
		}, "\n") + "\n"
		assert.Equal(t, out.String(), want, "it shows: … want:")
	})
}

// Events that were not copied are counted, and named if they are few.
func TestCopyNamesLeftOut(t *testing.T) {
	t.Parallel()
	assert.Equal(t, leftOutText(nil), "", "nothing was left out, it")
	few := []copying.LeftOut{{Stream: "$mine", Events: 3}, {Stream: "$stats", Events: 40}}
	if text, want := leftOutText(
		few), "not copied: 43 events in 2 streams that begin with $: $stats (40) $mine (3)"; text != want {
		t.Errorf("it says %q, want %q", text, want)
	}
	var many []copying.LeftOut
	for i := range 13 {
		many = append(many, copying.LeftOut{Stream: fmt.Sprintf("$%d", i), Events: 1})
	}
	if text := leftOutText(many); !strings.Contains(text, "$9 (1) and 3 more") || strings.Contains(text, "$10 ") {
		t.Errorf("it says %q", text)
	}
}
