package main

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/seal"
)

// maintenanceTurn is for the event store of the shared server, which does one task of maintenance at a time.
var maintenanceTurn sync.Mutex

// backUpLog copies the event store of the shared server.
func (s shell) backUpLog(to string) {
	s.Helper()
	maintenanceTurn.Lock()
	defer maintenanceTurn.Unlock()
	answer[backedUp](s.T, "eventstore", "backup", to, "--data-dir", s.server[1])
}

// A log is sealed and verified; so are its backup, its copy, and an export of it.
func TestSealedLog(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	id := s.destination(s.ok("org", "create", "Town hall")).String()
	sealed := answer[adminapi.SealState](t, append([]string{"audit", "seal"}, s.server...)...)
	if sealed.Head == nil || sealed.Head.Size < 3 {
		t.Fatalf("sealed %+v", sealed)
	}
	if out := s.ok("status"); !strings.Contains(out, "log sealed ") {
		t.Errorf("status: %s", out)
	}
	key := seal.KeyText(sealed.Key)
	s.destination(s.ok("org", "create", "Library"))
	if out := s.ok("audit", "seal"); !strings.Contains(out, key) {
		t.Errorf("no public key: %s", out)
	}

	data := s.server[1]
	s.backUpLog(at("backup"))
	answer[node.Report](t, "eventstore", "restore", at("backup"), "--data-dir", at("restored"))
	answer[copying.Result](t, "eventstore", "copy", "--from", at("restored/eventstore"), "--to", at("copy"))
	line, err := sealed.Head.Line()
	if err == nil {
		err = os.WriteFile(at("heads"), append([]byte(`{"msg":"log sealed","size":1}`+"\n"), line...), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	roots := map[string]string{}
	for name, args := range map[string][]string{
		"itself":    {"--data-dir", data},
		"backup":    {"--data-dir", at("restored"), "--key", key},
		"copy":      {"--from", at("copy"), "--data-dir", at("none"), "--key", key},
		"elsewhere": {"--from", at("copy"), "--data-dir", data, "--head", at("heads")},
	} {
		report := answer[treeheads.Report](t, append([]string{"audit", "verify"}, args...)...)
		if !report.OK() || report.Events <= sealed.Head.Size || report.Last == nil {
			t.Errorf("%s: %+v", name, report)
			continue
		}
		roots[name] = string(report.Last.Root)
	}
	if len(roots) != 4 || roots["backup"] != roots["copy"] || roots["copy"] != roots["elsewhere"] {
		t.Errorf("%d logs, %q", len(roots), roots)
	}
	keyless := []string{"audit", "verify", "--from", at("copy"), "--data-dir", at("none")}
	if code, _, errors := runIn(t.Context(), "", keyless...); code != 2 ||
		!strings.Contains(errors, "--key") {
		t.Errorf("without a key: %d, %s", code, errors)
	}

	s.ok("audit", "export", id, "--proof", "-o", at("proof"), "--head", at("heads"))
	proof := answer[seal.Verified](t, "audit", "verify", at("proof"), "--key", key, "--head", at("heads"))
	if len(proof.Faults) > 0 || proof.Events != 4 || proof.Elsewhere != 1 {
		t.Errorf("export: %+v", proof)
	}
	unpinned := []string{"audit", "verify", at("proof"), "--data-dir", at("none"), "--json"}
	if code, out, errors := runIn(t.Context(), "", unpinned...); code != 2 || !strings.Contains(errors, "--key") ||
		!strings.Contains(out, `"keyPinned": false`) || !strings.Contains(out, `"asked": "`+id+`"`) {
		t.Errorf("export without a key: %d, %s, %s", code, out, errors)
	}
	text, err := os.ReadFile(at("proof"))
	if err != nil {
		t.Fatal(err)
	}
	doctored := strings.Replace(string(text), "destination.deleted", "destination.enabled", 1)
	if err := os.WriteFile(at("doctored"), []byte(doctored), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, _ := runIn(t.Context(), "", "audit", "verify", at("doctored"), "--key", key); code != 1 ||
		!strings.Contains(out, "it is not in the tree") {
		t.Errorf("doctored: %d, %s", code, out)
	}
	s.refused("no sealed event has this id", "audit", "export", "0d000000-0000-4000-8000-00000000ffff", "--proof")
}

// Another client of the store cuts a stream, which is scavenged: it is named, and nothing of it can be exported.
func TestSealedLogScavenged(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := shortDir(t)
	id := s.destination(s.ok("org", "create", "Town hall")).String()
	sealed := answer[adminapi.SealState](t, append([]string{"audit", "seal"}, s.server...)...)
	s.backUpLog(filepath.Join(dir, "backup"))
	answer[node.Report](t, "eventstore", "restore", filepath.Join(dir, "backup"), "--data-dir", dir)
	stream := destination.Aggregate.Stream(uuid.MustParse(id))
	store, end, err := maintenance.OpenAlone(filepath.Join(dir, "eventstore"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	_, err = store.AppendEntries(t.Context(), "$$"+stream, eventstore.NoStream, []esdb.Entry{{
		JSON:     true,
		Recorded: eventstore.Recorded{ID: uuid.New(), Type: "$metadata", Data: []byte(`{"$tb":2}`)},
	}})
	end()
	if err != nil {
		t.Fatal(err)
	}
	if got := answer[node.Scavenged](t, "eventstore", "scavenge", "--data-dir", dir); got.Events != 2 {
		t.Errorf("scavenged %+v", got)
	}
	code, out, _ := runIn(t.Context(), "", "audit", "verify", "--data-dir", dir, "--key", seal.KeyText(sealed.Key))
	if code != 1 || !strings.Contains(out, "cut: "+stream+",") || !strings.Contains(out, "$tb 2 by another client") ||
		!strings.Contains(out, "2 of its events are gone") || strings.Contains(out, "missing") {
		t.Errorf("%d: %s", code, out)
	}
}

// Leaves are hashes of stored bytes: the log and its exports still prove when the data key of secrets is shredded.
func TestSealedLogShredded(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir, data := shortDir(t), s.server[1]
	at := func(name string) string { return filepath.Join(dir, name) }
	org := s.ok("org", "create", "Town hall")
	id := s.liveDestination(org)
	sealed := answer[adminapi.SealState](t, append([]string{"audit", "seal"}, s.server...)...)
	s.ok("audit", "export", id.String(), "--proof", "-o", at("before"))
	line, err := sealed.Head.Line()
	if err == nil {
		err = os.WriteFile(at("heads"), line, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	dataKey := filepath.Join(data, "keys", id.String())
	if _, err := os.Stat(dataKey); err != nil {
		t.Fatal(err)
	}
	s.delete(org, id)
	if _, err := os.Stat(dataKey); !os.IsNotExist(err) {
		t.Fatalf("the data key is not shredded: %v", err)
	}
	s.ok("audit", "export", id.String(), "--proof", "-o", at("after"), "--head", at("heads"))
	report := answer[treeheads.Report](t, "audit", "verify", "--data-dir", data, "--head", at("heads"))
	if !report.OK() || report.Elsewhere != 1 || report.Events <= sealed.Head.Size {
		t.Errorf("the log: %+v", report)
	}
	for file, events := range map[string]int{"before": 3, "after": 4} {
		proof := answer[seal.Verified](t, "audit", "verify", at(file), "--key", seal.KeyText(sealed.Key))
		if len(proof.Faults) > 0 || proof.Events != events {
			t.Errorf("the export %s: %+v", file, proof)
		}
	}
}

// A log on a separate event store is sealed and verified as an embedded one is; so is its copy in another.
func TestSealedLogOnServer(t *testing.T) {
	t.Parallel()
	dir := shortDir(t)
	at := func(name string) string { return filepath.Join(dir, name) }
	url, copied := named(t, at("store")), named(t, at("copy"))
	s := openWith(t, func(c *config.Config) {
		c.EventStoreURL, c.SealTo = config.Address(url), config.Address(at("heads"))
	})
	id := s.destination(s.ok("org", "create", "Town hall")).String()
	sealed := answer[adminapi.SealState](t, append([]string{"audit", "seal"}, s.server...)...)
	key := seal.KeyText(sealed.Key)
	s.ok("audit", "export", id, "--proof", "-o", at("proof"))
	proof := answer[seal.Verified](t, "audit", "verify", at("proof"), "--key", key)
	if len(proof.Faults) > 0 || proof.Events != 4 {
		t.Errorf("export: %+v", proof)
	}
	answer[copying.Result](t, "eventstore", "copy", "--from", url, "--to", copied)
	for kept, _ := os.ReadFile(at("heads")); !bytes.HasSuffix(kept, []byte("\n")); kept, _ = os.ReadFile(at("heads")) {
		runtime.Gosched() // heads are sent apart from the request
	}
	for name, from := range map[string]string{"itself": url, "copy": copied} {
		report := answer[treeheads.Report](t, "audit", "verify", "--from", from, "--data-dir", s.server[1],
			"--head", at("heads"))
		if !report.OK() || report.Elsewhere == 0 || report.Last == nil || report.Events+report.Unsealed <= sealed.Head.Size {
			t.Errorf("%s: %+v", name, report)
		}
	}
}
