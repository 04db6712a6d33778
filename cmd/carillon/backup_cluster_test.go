package main

import (
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/projections/pgtest"
)

// named is a server of events that is as unkind as real ones are, reached by its address.
func named(t *testing.T, dir string) (url string) {
	t.Helper()
	n, err := node.Open(node.Config{Dir: dir, Quirks: &stricttest.Strict{}})
	if err != nil {
		t.Fatal(err)
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	t.Cleanup(func() {
		if err := n.Close(); err != nil {
			t.Error(err)
		}
		<-served
	})
	return "esdb://" + listener.Addr().String() + "?tls=false"
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
	if made.Keys != 2 || made.Events == 0 {
		t.Errorf("backed up %+v", made)
	}
	stop()

	fresh, database, change := elsewhere("new")
	if err := os.Mkdir(at("new"), 0o700); err != nil {
		t.Fatal(err)
	}
	master, err := os.ReadFile(filepath.Join(at("old"), config.MasterKeyFile))
	if err == nil {
		err = os.WriteFile(filepath.Join(at("new"), config.MasterKeyFile), master, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	restored := answer[backup.Manifest](t, append([]string{"restore", at("backup")}, fresh...)...)
	if restored.Keys != made.Keys || restored.Events != made.Events || restored.Streams != made.Streams {
		t.Errorf("restored %+v of %+v", restored, made)
	}
	url, key, stop = server(t, at("new"), database, change, func(cfg *config.Config) { cfg.AfterRestore = true })
	defer stop()
	if got := ask(t, key, http.MethodGet, url+hooks+"crm/secrets", "", http.StatusOK); got != want {
		t.Errorf("the secrets are %s, want %s", got, want)
	}
	ask(t, key, http.MethodGet, url+hooks+"gone", "", http.StatusNotFound)
}
