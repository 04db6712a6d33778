package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// TestHostileForgedBackup: who can write to the place of backups, and has no master key, makes none that is restored.
func TestHostileForgedBackup(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	url, key, stop := server(t, at("data"), pgtest.URL(t))
	ask(t, key, http.MethodPut, url+"/events/destinations/crm",
		`{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook"}}`, http.StatusCreated)
	stop()
	answer[backup.Manifest](t, "backup", at("backup"), "--data-dir", at("data"))
	const forged = "was changed after it was made"
	tests := map[string]struct {
		forge  func(t *testing.T, dir string)
		refuse string
	}{
		"as it was made": {func(*testing.T, string) {}, ""},
		"other streams":  {change("streams.ndjson", `"events":1`, `"events":2`), forged},
		"other keys":     {change("keys/slots", "KEY1", "KEY2"), forged},
		"other counts":   {change("backup.json", `"keys":1`, `"keys":2`), forged},
		"another time":   {change("backup.json", `"madeAt":"20`, `"madeAt":"21`), forged},
		"no signature":   {change("backup.json", `"mac"`, `"was"`), "--accept-unsigned"},
		"an event more":  {moreEvents, "differs from the backup, or is not in it"},
		"hidden events":  {hiddenEvents, "differs from the backup, or is not in it"},
		"other metadata": {otherMetadata, "and in the backup it had"},
		"another order":  {anotherOrder, "the order of its events"},
		"a manifest less": {func(t *testing.T, dir string) {
			t.Helper()
			must.OK(t, os.Remove(filepath.Join(dir, "backup.json")))
		}, "no whole backup"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from, to := filepath.Join(shortDir(t), "b"), filepath.Join(shortDir(t), "d")
			must.OK(t, os.CopyFS(from, os.DirFS(at("backup"))))
			must.OK(t, os.Mkdir(to, 0o700))
			must.OK(t, os.Link(at("data/master.key"), filepath.Join(to, "master.key")))
			tt.forge(t, from)
			code, _, text := runIn(t.Context(), "", "restore", from, "--data-dir", to)
			if tt.refuse == "" {
				must.True(t, code == 0, "%v", text)
				return
			}
			must.True(t, code == 1 && strings.Contains(text, tt.refuse), "%d, %s, want %q", code, text, tt.refuse)
			cfg := config.Config{DataDir: to, AfterRestore: true, Roles: []string{config.RoleAPI}}
			if _, err := os.Stat(filepath.Join(to, "eventstore")); err == nil {
				if _, err := cfg.CheckRestored(); err == nil || !strings.Contains(err.Error(), "was not finished") {
					t.Errorf("a server starts on a refused backup: %v", err)
				}
			}
		})
	}
}

// TestHostileUnsignedBackup: the description of an unsigned backup comes from its data, not from its own claims.
func TestHostileUnsignedBackup(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	_, _, stop := server(t, at("data"), pgtest.URL(t))
	stop()
	made := answer[backup.Manifest](t, "backup", at("backup"), "--data-dir", at("data"))
	text := must.Get(os.ReadFile(at("backup/backup.json")))(t)
	var claims map[string]any
	must.OK(t, json.Unmarshal(text, &claims))
	claims["mac"], claims["events"], claims["keys"], claims["dir"] = "", 1_000_000, 1_000_000, "/srv/ours"
	must.OK(t, os.WriteFile(at("backup/backup.json"), must.Get(json.Marshal(claims))(t), 0o600))
	must.OK(t, os.WriteFile(at("backup/streams.ndjson"), plainStreams(t, at("backup/eventstore")), 0o600))
	must.OK(t, os.RemoveAll(at("data/eventstore")))
	read := answer[backup.Manifest](t, "restore", at("backup"), "--data-dir", at("data"), "--accept-unsigned")
	assert.True(t, read.Events == made.Events && read.Keys == 0 && !read.Signed() && read.Dir == at("backup") &&
		read.MadeAt.IsZero(), "restored %+v, and the backup had %+v", read, made)
}

// change replaces text of a backup's file, which must have it.
func change(name, from, to string) func(*testing.T, string) {
	return func(t *testing.T, dir string) {
		t.Helper()
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path) //nolint:gosec // the test's own
		must.True(t, err == nil && strings.Contains(string(text), from), "%s has no %s: %v", name, from, err)
		must.OK(t, os.WriteFile(path, []byte(strings.Replace(string(text), from, to, 1)), 0o600))
	}
}

// events runs the event store of a backup.
func events(t *testing.T, dir string, use func(*esdb.Store)) {
	t.Helper()
	store, end, err := maintenance.OpenAlone(filepath.Join(dir, "eventstore"), slog.New(slog.DiscardHandler))
	must.OK(t, err)
	defer end()
	use(store)
}

func appended(t *testing.T, store *esdb.Store, stream string, last eventstore.Revision, list ...esdb.Entry) {
	t.Helper()
	must.Get(store.AppendEntries(t.Context(), stream, last, list))(t)
}

func moreEvents(t *testing.T, dir string) {
	t.Helper()
	events(t, dir, func(store *esdb.Store) {
		appended(t, store, "operator-"+uuid.NewString(), eventstore.NoStream,
			esdb.Entry{JSON: true, Recorded: eventstore.Recorded{ID: uuid.New(), Type: "operator.acted.v1",
				Data: []byte("{}")}})
	})
}

func hiddenEvents(t *testing.T, dir string) {
	t.Helper()
	events(t, dir, func(store *esdb.Store) {
		for _, entry := range userEvents(t, store) {
			appended(t, store, "$$"+entry.Stream, eventstore.NoStream,
				esdb.Entry{JSON: true, Recorded: eventstore.Recorded{ID: uuid.New(), Type: "$metadata",
					Data: []byte(`{"$tb":1}`)}})
			return
		}
	})
}

// anew makes the event store of a backup anew, of events that are changed.
func anew(t *testing.T, dir string, changed func([]esdb.Entry) []esdb.Entry) {
	t.Helper()
	var list []esdb.Entry
	events(t, dir, func(store *esdb.Store) { list = userEvents(t, store) })
	must.OK(t, os.RemoveAll(filepath.Join(dir, "eventstore")))
	events(t, dir, func(store *esdb.Store) {
		for _, entry := range changed(list) {
			appended(t, store, entry.Stream, entry.Revision-1, entry)
		}
	})
}

func userEvents(t *testing.T, store *esdb.Store) (list []esdb.Entry) {
	t.Helper()
	for entry, err := range store.All(t.Context(), eventstore.Start) {
		must.OK(t, err)
		if !strings.HasPrefix(entry.Stream, "$") {
			entry.Metadata = eventstore.CarriedMetadata(&entry.Recorded)
			list = append(list, entry)
		}
	}
	return list
}

// otherMetadata records another actor for the events.
func otherMetadata(t *testing.T, dir string) {
	t.Helper()
	anew(t, dir, func(list []esdb.Entry) []esdb.Entry {
		last := &list[len(list)-1]
		last.Metadata = []byte(strings.Replace(string(last.Metadata), `"actor":"`, `"actor":"x`, 1))
		return list
	})
}

func anotherOrder(t *testing.T, dir string) {
	t.Helper()
	anew(t, dir, func(list []esdb.Entry) []esdb.Entry {
		for i := len(list) - 1; i > 0; i-- {
			if list[i].Stream != list[i-1].Stream {
				list[i], list[i-1] = list[i-1], list[i]
				return list
			}
		}
		t.Fatal("there is one stream only")
		return nil
	})
}

// plainStreams writes down the streams of an event store as versions before signatures did: without metadata.
func plainStreams(t *testing.T, dir string) []byte {
	t.Helper()
	sums, streams := map[string][]byte{}, map[string]copying.Stream{}
	events(t, filepath.Dir(dir), func(store *esdb.Store) {
		for _, entry := range userEvents(t, store) {
			sum := sums[entry.Stream]
			if sum == nil {
				sum = make([]byte, sha256.Size)
			}
			revision := binary.AppendUvarint(nil, uint64(entry.Revision)) //nolint:gosec // not negative
			for _, part := range [][]byte{[]byte(entry.Type), entry.ID[:], entry.Data, revision} {
				sum = append(binary.AppendUvarint(sum, uint64(len(part))), part...)
			}
			next := sha256.Sum256(sum)
			sums[entry.Stream] = next[:]
			streams[entry.Stream] = copying.Stream{
				Name:   entry.Stream,
				Events: streams[entry.Stream].Events + 1,
				Last:   entry.Revision,
				SHA256: hex.EncodeToString(next[:]),
			}
		}
	})
	var lines bytes.Buffer
	for _, one := range streams {
		must.OK(t, json.NewEncoder(&lines).Encode(one))
	}
	return lines.Bytes()
}
