package main

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"carillon/aggregates/disclosure"
	"carillon/aggregates/subscription"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/treeheads"
	"carillon/eventstore/copying"
	"carillon/eventstore/node"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
	must.True(t, sealed.Head != nil && sealed.Head.Size >= 3, "sealed %+v", sealed)
	s.shows("log sealed ", "status")
	key := seal.KeyText(sealed.Key)
	s.destination(s.ok("org", "create", "Library"))
	s.shows(key, "audit", "seal")

	data := s.server[1]
	s.backUpLog(at("backup"))
	answer[node.Report](t, "eventstore", "restore", at("backup"), "--data-dir", at("restored"))
	url := named(t, at("server"))
	answer[copying.Result](t, "eventstore", "copy", "--from", at("restored/eventstore"), "--to", at("copy"))
	answer[copying.Result](t, "eventstore", "copy", "--from", at("copy"), "--to", url)
	line, err := sealed.Head.Line()
	if err == nil {
		err = os.WriteFile(at("heads"), append([]byte(`{"msg":"log sealed","size":1}`+"\n"), line...), 0o600)
	}
	must.OK(t, err)
	roots := map[string]string{}
	for name, args := range map[string][]string{
		"itself":    {"--data-dir", data},
		"backup":    {"--data-dir", at("restored"), "--key", key},
		"copy":      {"--from", at("copy"), "--data-dir", at("none"), "--key", key},
		"server":    {"--from", url, "--data-dir", at("none"), "--key", key},
		"elsewhere": {"--from", at("copy"), "--data-dir", data, "--head", at("heads")},
	} {
		report := answer[treeheads.Report](t, append([]string{"audit", "verify"}, args...)...)
		if !report.OK() || report.Events <= sealed.Head.Size || report.Last == nil {
			t.Errorf("%s: %+v", name, report)
			continue
		}
		roots[name] = string(report.Last.Root)
	}
	assert.True(t, len(roots) == 5 && roots["backup"] == roots["copy"] && roots["copy"] == roots["elsewhere"] &&
		roots["copy"] == roots["server"], "%d logs, %q", len(roots), roots)
	keyless := []string{"audit", "verify", "--from", at("copy"), "--data-dir", at("none")}
	fails(t, 2, "--key", keyless...)

	s.ok("audit", "export", id[:13], "--proof", "-o", at("proof"), "--head", at("heads"))
	s.shows("deleted", "audit", "list", "--kind", "destination", "--thing", id[:13])
	proof := answer[seal.Verified](t, "audit", "verify", at("proof"), "--key", key, "--head", at("heads"))
	assert.True(t, len(proof.Faults) == 0 && proof.Events == 4 && proof.Elsewhere == 1, "export: %+v", proof)
	unpinned := []string{"audit", "verify", at("proof"), "--data-dir", at("none"), "--json"}
	if code, out, errors := runIn(t.Context(), "", unpinned...); code != 2 || !strings.Contains(errors, "--key") ||
		!strings.Contains(out, `"keyPinned": false`) || !strings.Contains(out, `"asked": "`+id+`"`) {
		t.Errorf("export without a key: %d, %s, %s", code, out, errors)
	}
	text := must.Get(os.ReadFile(at("proof")))(t)
	doctored := strings.Replace(string(text), "destination.deleted", "destination.enabled", 1)
	must.OK(t, os.WriteFile(at("doctored"), []byte(doctored), 0o600))
	if code, out, _ := runIn(t.Context(), "", "audit", "verify", at("doctored"), "--key", key); code != 1 ||
		!strings.Contains(out, "it is not in the tree") {
		t.Errorf("doctored: %d, %s", code, out)
	}
	s.refused("no sealed event has this id", "audit", "export", "0d000000-0000-4000-8000-00000000ffff", "--proof")
}

// An export with an auditor's token says what is not sealed yet, and until when it is. That of a destination contains
// who saw its secrets.
func TestExportLacks(t *testing.T) {
	t.Parallel()
	s := openWith(t, func(*config.Config) {})
	org := s.ok("org", "create", "Town hall")
	auditor := []string{"--admin-token", s.ok("auditor", "issue", "Ann")}
	id := s.liveDestination(org)
	s.ok("audit", "seal")
	must.Get(s.app.Commands.RotateSecret(t.Context(), caller(org), command.RotateSecret{Destination: id}))(t)
	file := filepath.Join(shortDir(t), "proof")
	export := append([]string{"audit", "export", id.String(), "--proof", "-o", file}, auditor...)
	code, out, errors := s.run(export...)
	if code != 0 || !strings.Contains(out, "exported 3 events to ") || !strings.Contains(errors,
		"missing: 1 event newer than the tree head, not sealed yet\nthe next tree head is signed by 20") {
		t.Errorf("%d, %s, %s", code, out, errors)
	}
	if code, _, errors := s.run(append(export, "--complete")...); code != 3 || !strings.Contains(errors, "not complete") {
		t.Errorf("complete: %d, %s", code, errors)
	}
	shown := command.Disclose{Destination: id, What: []disclosure.Part{disclosure.Secrets}}
	must.OK(t, s.app.Commands.Disclose(t.Context(), caller(org), shown))
	s.ok("audit", "export", id.String(), "--proof", "-o", file, "--complete") // an operator's token seals before
	_, verified, _ := runIn(t.Context(), "", "audit", "verify", file, "--data-dir", s.server[1])
	s.has(verified, "5 events of "+id.String(),
		"destination-"+id.String()+": events 0 to 3, none between them is missing", "disclosure-",
		"nothing of it is missing up to the tree head")
}

// A proved export is shown offline as the server shows the history. Of a doctored one nothing is.
func TestExportIsShown(t *testing.T) {
	t.Parallel()
	s := open(t)
	org := s.ok("org", "create", "Town hall")
	id := s.liveDestination(org)
	shown := command.Disclose{Destination: id, What: []disclosure.Part{disclosure.Headers}}
	must.OK(t, s.app.Commands.Disclose(t.Context(), caller(org), shown))
	made := must.Get(s.app.Commands.CreateSubscription(t.Context(), caller(org), command.CreateSubscription{
		Destination: id,
		Settings:    subscription.Settings{EventTypes: []string{"event.*"}, ScopeKind: subscription.ScopeAll},
	}))(t)
	file := filepath.Join(shortDir(t), "proof")
	s.ok("audit", "export", id.String(), "--proof", "-o", file)
	offline := []string{"audit", "show", file, "--data-dir", s.server[1]}
	at := "2099-01-01T00:00:00Z"
	want := s.ok("audit", "destination", id.String(), "--at", at)
	_, got, _ := runIn(t.Context(), "", append(offline, "--at", at)...)
	picture, report, _ := strings.Cut(got, "\n\n"+id.String())
	assert.True(t, strings.HasPrefix(picture, want) && strings.Contains(want, made.ID.String()[:8]) &&
		strings.Contains(want, "SHOWN IN FULL"), "got\n%s\nand %s, want\n%s", picture, report, want)
	export := answer[shownExport](t, offline...)
	assert.True(t, len(export.Contents) == 5 && strings.Contains(string(export.Contents[0].Data), `"name": "CRM"`),
		"%+v", export.Contents)
	text := must.Get(os.ReadFile(file))(t)
	doctored := strings.Replace(string(text), "destination.created", "destination.revised", 1)
	must.OK(t, os.WriteFile(file, []byte(doctored), 0o600))
	code, got, _ := runIn(t.Context(), "", offline...)
	assert.True(t, code == 1 && !strings.Contains(got, "CRM") && strings.Contains(got, "it is not in the tree"),
		"doctored: %d, %s", code, got)
}
