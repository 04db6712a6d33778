package main

import (
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/copying"
	"carillon/eventstore/node"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

const (
	hooks = "/events/destinations/"
	hook  = `{"name":"CRM","config":{"url":"https://127.0.0.1:1/hook","headers":{"x-key":"k"}}}`
)

// installationJourney is a server that is backed up in every way while it runs, and what of it is looked at
// afterwards.
type installationJourney struct {
	*testing.T
	serving
	dir string

	crm, later uuid.UUID // destinations
	secrets    string    // of crm
	shown      string    // the client certificate
}

func (j *installationJourney) at(name string) string { return filepath.Join(j.dir, name) }

func (j *installationJourney) backup(to string, keys int) {
	j.Helper()
	made := answer[backup.Manifest](j.T, "backup", j.at(to), "--data-dir", j.at("data"))
	assert.True(j, made.Keys == keys && made.Events != 0, "backed up %+v, want %d keys", made, keys)
}

// copyMasterKey copies the master key of a server into a directory, which may be new.
func copyMasterKey(t *testing.T, from, to string) {
	t.Helper()
	key := must.Get(os.ReadFile(filepath.Join(from, config.MasterKeyFile)))(t)
	must.OK(t, os.MkdirAll(to, 0o700))
	must.OK(t, os.WriteFile(filepath.Join(to, config.MasterKeyFile), key, 0o600))
}

func (j *installationJourney) api(method, path, body string, want int) string {
	j.Helper()
	return ask(j.T, j.key, method, "http://"+j.app.APIAddr().String()+path, body, want)
}

// create makes a destination and returns its id.
func (j *installationJourney) create(name string) uuid.UUID {
	j.Helper()
	var made struct {
		Data struct{ ID uuid.UUID }
	}
	text := j.api(http.MethodPut, hooks+name, hook, http.StatusCreated)
	must.OK(j, json.Unmarshal([]byte(text), &made, json.MatchCaseInsensitiveNames(true)))
	return made.Data.ID
}

// Everything can be made again on another machine, from the backup and the master key alone. No deleted key comes
// back.
func TestBackupAndRestore(t *testing.T) {
	t.Parallel()
	j := &installationJourney{T: t, dir: shortDir(t)}
	j.serving = serve(t, settings(j.at("data"), apitest.Prepared.URL(t)))
	j.eventStore()
	j.clientCertificate()
	j.rotated()
	j.interrupted()
	j.overARunningServer()
	j.concurrently()
	j.stop()
	fails(j.T, 1, "must be empty", "restore", j.at("backup"), "--data-dir", j.at("data"))
	assert.True(t, !j.hasKey(j.later), "the key of a deleted destination is back, after the server has ended")
	copyMasterKey(j.T, j.at("data"), j.at("new"))
	must.OK(t, os.RemoveAll(j.at("data/eventstore")))
	answer[backup.Manifest](t, "restore", j.at("one"), "--data-dir", j.at("data"))
	j.restored()
}

// The event store of a running server is verified and copied.
func (j *installationJourney) eventStore() {
	j.Helper()
	if got := answer[node.Report](j.T, "eventstore", "verify", "--data-dir", j.at("data")); got.Events == 0 ||
		got.Faults != 0 {
		j.Errorf("verified %+v", got)
	}
	if got := answer[copying.Result](j.T, "eventstore", "copy", "--data-dir", j.at("data"), "--to",
		j.at("copy")); got.Copied == 0 || got.Compared != got.Copied {
		j.Errorf("copied %+v", got)
	}
}

func (j *installationJourney) clientCertificate() {
	j.Helper()
	authority := mtlstest.NewAuthority(j.T, "Receiver's")
	org := app.DevelopmentOrganization.String()
	for _, name := range []string{"first", "second"} {
		pair := authority.Issue(name, nil)
		for file, text := range map[string]string{"cert.pem": pair.Chain, "key.pem": pair.Key} {
			must.OK(j, os.WriteFile(j.at(file), []byte(text), 0o600))
		}
		prints(j.T, "", append([]string{"org", "certificate", "set", org, "--cert", j.at("cert.pem"), "--key",
			j.at("key.pem")}, j.flags...)...)
	}
	j.shown = prints(j.T, "", append([]string{"org", "certificate", "show", org}, j.flags...)...)
}

// A backup that was cut off after the copy of the event store continues, without later events. The store is copied
// again if destinations were deleted meanwhile, so that each destination in the copy has its key.
func (j *installationJourney) interrupted() {
	j.Helper()
	j.create("gone")
	j.secrets = j.api(http.MethodGet, hooks+"crm/secrets", "", http.StatusOK)
	j.backup("backup", 3)
	must.OK(j, os.Remove(j.at("backup/backup.json")))
	j.later = j.create("later")
	j.backup("backup", 3)
	must.OK(j, os.Remove(j.at("backup/backup.json")))
	must.OK(j, os.RemoveAll(j.at("backup/keys")))
	j.api(http.MethodDelete, hooks+"gone", "", http.StatusOK)
	j.backup("backup", 3)
	fails(j.T, 1, "whole backup", "backup", j.at("backup"), "--data-dir", j.at("data"))
}

// hasKey reports whether the key store of the server has the key of a destination.
func (j *installationJourney) hasKey(destination uuid.UUID) bool {
	j.Helper()
	_, err := os.Stat(j.at("data/keys/" + destination.String()))
	return err == nil
}

// A backup that is older than a deletion is not restored if the deletion is known.
func (j *installationJourney) overARunningServer() {
	j.Helper()
	must.True(j, j.hasKey(j.later), "the key store does not have the destination's key")
	j.api(http.MethodDelete, hooks+"later", "", http.StatusOK)
	fails(j.T, 1, "a server runs", "restore", j.at("backup"), "--data-dir", j.at("data"))
	assert.True(j, !j.hasKey(j.later), "the key of a deleted destination is back, while a server runs")
}

// The master key that is there afterwards opens a backup, or it is none.
func (j *installationJourney) rotated() {
	j.Helper()
	j.crm = j.create("crm")
	in := (&installation{DataDir: j.at("data")}).open(terminal{out: io.Discard, err: io.Discard}, &commandLine{})
	in.Log = slog.New(slog.DiscardHandler)
	progress := in.Progress
	in.Progress = func(what string) (node.Progress, func()) {
		if what == "backing up" {
			prints(j.T, "", append([]string{"keys", "rotate-master"}, j.flags...)...)
		}
		return progress(what)
	}
	_, err := in.Make(j.Context(), j.at("rotated"), time.Now())
	assert.True(j, err != nil && strings.Contains(err.Error(), "was rotated"),
		"a backup by the key of before is taken for whole: %v", err)
	j.backup("rotated", 2)
	copyMasterKey(j.T, j.at("data"), j.at("other"))
	answer[backup.Manifest](j.T, "restore", j.at("rotated"), "--data-dir", j.at("other"))
}

// Of some backups into one directory at the same time one is made and the others are refused.
func (j *installationJourney) concurrently() {
	j.Helper()
	args := []string{"backup", j.at("one"), "--data-dir", j.at("data")}
	half := j.at("one/eventstore.partial/half") // of another one that is in progress
	must.OK(j, os.MkdirAll(filepath.Dir(half), 0o700))
	must.OK(j, os.WriteFile(half, []byte("half"), 0o600))
	other, err := os.Open(j.at("one"))
	if err == nil {
		err = syscall.Flock(int(other.Fd()), syscall.LOCK_EX) //nolint:gosec // a descriptor fits
	}
	must.OK(j, err)
	fails(j.T, 1, "another backup", args...)
	assert.OK(j, assert.Err(os.Stat(half)))
	must.OK(j, other.Close())
	var all sync.WaitGroup
	codes := make([]int, 4)
	for i := range codes {
		all.Go(func() {
			code, _, errors := runIn(j.Context(), "", args...)
			if code != 0 && !strings.Contains(errors, "another backup") && !strings.Contains(errors, "whole backup") {
				j.Errorf("%d, %s", code, errors)
			}
			codes[i] = code
		})
	}
	all.Wait()
	whole := 0
	for _, code := range codes {
		if code == 0 {
			whole++
		}
	}
	assert.True(j, whole == 1, "%d of 4 say that they made it", whole)
}

// restored restores the backup on another machine.
func (j *installationJourney) restored() {
	j.Helper()
	restore := []string{"restore", j.at("backup"), "--data-dir", j.at("new")}
	master := must.Get(os.ReadFile(j.at("new/" + config.MasterKeyFile)))(j)
	fails(j.T, 1, "there is no master key", "restore", j.at("backup"), "--data-dir", j.at("keyless"))
	for _, key := range [][]byte{[]byte("BwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwcHBwc="), master} {
		must.OK(j, os.WriteFile(j.at("new/"+config.MasterKeyFile), key, 0o600))
		if !bytes.Equal(key, master) {
			fails(j.T, 1, "the backup was made with master key", restore...)
		}
	}
	if made := answer[backup.Manifest](j.T, restore...); made.Keys != 3 {
		j.Errorf("restored %+v", made)
	}
	prints(j.T, "", restore...) // again, which changes nothing
	cfg := settings(j.at("new"), pgtest.URL(j.T))
	_, err := app.Open(j.Context(), cfg, slog.New(slog.DiscardHandler))
	assert.True(j, err != nil && strings.Contains(err.Error(), "--after-restore"),
		"it would send what was sent since: %v", err)
	cfg.AfterRestore = true
	j.serving = serve(j.T, cfg)
	if got := j.api(http.MethodGet, hooks+"crm/secrets", "", http.StatusOK); got != j.secrets {
		j.Errorf("the secrets are %s, want %s", got, j.secrets)
	}
	j.api(http.MethodGet, hooks+"gone", "", http.StatusNotFound)
	org := app.DevelopmentOrganization.String()
	must.Eventually(j.T, "the client certificate is restored", func() bool {
		_, shown, _ := runIn(j.Context(), "", append([]string{"org", "certificate", "show", org}, j.flags...)...)
		return shown == j.shown && strings.Contains(shown, "CN=second")
	})
	must.Eventually(j.T, "the restore is on record", func() bool {
		_, shown, _ := runIn(j.Context(), "", append([]string{"audit", "operator", "operator"}, j.flags...)...)
		return strings.Contains(shown, "take-over-restored")
	})
	j.stop()
	j.withoutItsKey("1 client certificate, of organization " + org)
}

// No backup is made if the key of the client certificate is lost.
func (j *installationJourney) withoutItsKey(says string) {
	j.Helper()
	keys, err := custody.InDir(j.at("new/keys")).Read(j.Context())
	must.True(j, err == nil && len(keys) == 3, "%d keys, %v", len(keys), err)
	for owner := range keys {
		if owner != j.crm && owner != j.later {
			err = os.Remove(j.at("new/keys/" + owner.String()))
		}
	}
	must.OK(j, err)
	fails(j.T, 1, says, "backup", j.at("another"), "--data-dir", j.at("new"))
}
