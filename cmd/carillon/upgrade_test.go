//go:build nightly

package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/must"
)

// releaseBefore is upgraded from as long as no release has a tag. It is the oldest commit that may be rolled back to:
// older ones have other homes of data keys.
const releaseBefore = "7b4723de7493db903a46cd6de66b3a6b63e7791d"

// succession is a data directory and a Postgres on which one program after the other serves.
type succession struct {
	workplace
	*inbox

	key, path string // of the destination
	data      string
	flags     string // by which commands find the server
	stop      func()
	published int
}

// TestUpgradeAndRollback runs the release before, this program, the release before again, and this program again on one
// installation: each reads what was written before and delivers what was left, and all deliveries arrive once.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	i := &succession{workplace: newWorkplace(t)}
	before := i.buildReleaseBefore()
	i.inbox = newInbox(t)
	i.data = filepath.Join(i.dir, "data")
	i.env = append(i.env, "CARILLON_DATA_DIR="+i.data, "CARILLON_EGRESS_CA="+i.authority,
		"CARILLON_DELIVERY_RETRY_SCHEDULE="+strings.Repeat("1s,", 49)+"1s")
	const this = "bin/carillon"
	secrets := ""
	for turn, program := range []string{before, this, before, this} {
		i.start(program)
		header := fmt.Sprint("turn ", turn)
		settings := fmt.Sprintf(`{"name":"CRM","config":{"url":%q,"headers":{"x-turn":%q}}}`, i.address, header)
		if turn == 0 {
			ask(t, i.key, http.MethodPut, i.path, settings, http.StatusCreated)
			ask(t, i.key, http.MethodPost, i.path+"/subscriptions", `{"eventTypes":["*"],"scopeKind":"all"}`,
				http.StatusCreated)
			secrets = ask(t, i.key, http.MethodGet, i.path+"/secrets", "", http.StatusOK)
		}
		if got := ask(t, i.key, http.MethodGet, i.path+"/secrets", "", http.StatusOK); got != secrets {
			t.Errorf("turn %d: the secrets are %s, want %s", turn, got, secrets)
		}
		i.delivered()
		ask(t, i.key, http.MethodPatch, i.path, settings, http.StatusOK)
		i.publish(10)
		i.delivered()
		if got := i.lastHeader(); got != header {
			t.Errorf("turn %d: the receiver got x-turn %q", turn, got)
		}
		if program == this {
			i.verify()
		}
		i.leaveOne()
	}
}

// buildReleaseBefore builds the release before this commit, and returns the program.
func (i *succession) buildReleaseBefore() (program string) {
	i.Helper()
	source, program := filepath.Join(i.dir, "before"), filepath.Join(i.dir, "bin/before")
	const script = `[ "$(git rev-parse --is-shallow-repository)" = false ] || exit 3
		release=$(git describe --tags --match 'v*' --abbrev=0 HEAD^ 2>/dev/null) || release=$1
		mkdir "$2"; git archive --output "$2/source.tar" "$release"; tar -C "$2" -xf "$2/source.tar"`
	archive := exec.CommandContext(i.Context(), "sh", "-e", "-c", script, "sh", releaseBefore, source)
	archive.Dir = root
	switch out, err := archive.CombinedOutput(); {
	case err != nil && archive.ProcessState.ExitCode() == 3:
		i.Skip("the history is not here")
	case err != nil:
		i.Fatalf("the release before: %v: %s", err, out)
	}
	// As make build does: the next run finds what is compiled in Go's cache.
	arguments := []string{"build", "-trimpath", "-o", program, "./cmd/carillon"}
	build := exec.CommandContext(i.Context(), "go", arguments...) //nolint:gosec // of this test
	build.Dir, build.Env = source, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		i.Fatalf("build the release before: %v: %s", err, out)
	}
	return program
}

// start has a program serve, and waits until it is ready.
func (i *succession) start(program string) {
	i.Helper()
	api, admin, stop := i.serve(program + " serve --dev")
	i.stop, i.flags = stop, " --admin-addr "+admin
	apitest.Eventually(i, "the server is ready", func() bool {
		return i.command("bin/carillon status"+i.flags).Run() == nil
	})
	i.key = must.Get(dev.ReadKey(i.data))(i)
	i.path = "http://" + api + "/events/destinations/crm"
}

// publish publishes n events.
func (i *succession) publish(n int) {
	i.Helper()
	event := fmt.Sprintf(`{"type":"factcheck.status.changed","source":"/f","subject":"c-1","organizationId":%q,`+
		`"data":{"id":"c-1","status":"queued"}}`, app.DevelopmentOrganization)
	i.run("yes '" + event + "' | head -n " + fmt.Sprint(n) + " | bin/carillon publish -" + i.flags)
	i.published += n
}

// delivered waits until all deliveries are succeeded, and checks that each was received once.
func (i *succession) delivered() {
	i.Helper()
	var answer struct{ Data struct{ Total int } }
	apitest.Eventually(i, "all is delivered", func() bool {
		text := ask(i.T, i.key, http.MethodGet, i.path+"/deliveries?status=succeeded", "", http.StatusOK)
		must.OK(i, json.Unmarshal([]byte(text), &answer))
		return answer.Data.Total == i.published
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.received) != i.published {
		i.Errorf("%d of %d deliveries were received", len(i.received), i.published)
	}
	for id, times := range i.received {
		if times != 1 {
			i.Errorf("%s was received %d times", id, times)
		}
	}
}

// verify seals the log, and compares all read models with it.
func (i *succession) verify() {
	i.Helper()
	i.run("bin/carillon audit seal" + i.flags)
	i.run("bin/carillon audit verify")
	for _, model := range app.ReadModels() {
		apitest.Eventually(i, model.Name+" is verified", func() bool { // it may not be complete yet
			out, err := i.command("bin/carillon projections verify " + model.Name + i.flags).CombinedOutput()
			if strings.Contains(string(out), "DIFFERS") {
				i.Fatal(string(out))
			}
			return err == nil
		})
	}
}

// leaveOne stops the server while a delivery waits to be tried again.
func (i *succession) leaveOne() {
	i.Helper()
	i.refuse(true)
	i.publish(1)
	apitest.Eventually(i, "the receiver has refused it", i.hasRefused)
	i.stop()
	i.refuse(false)
}

// inbox is a receiver that may refuse everything.
type inbox struct {
	address, authority string // its URL, and the file with its certificate

	mu       sync.Mutex
	refuses  bool
	refused  bool           // a request, since it refuses
	received map[string]int // requests that were not refused, by webhook-id
	header   string         // x-turn of the last one
}

func newInbox(t *testing.T) *inbox {
	t.Helper()
	b := &inbox{authority: filepath.Join(t.TempDir(), "authority.crt"), received: map[string]int{}}
	server := httptest.NewTLSServer(b)
	t.Cleanup(server.Close)
	b.address = server.URL + "/hook"
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.OK(t, os.WriteFile(b.authority, certificate, 0o600))
	return b
}

// ServeHTTP implements http.Handler.
func (b *inbox) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	switch {
	case r.Method != http.MethodPost: // a look whether it can be reached
	case !b.refuses:
		b.received[r.Header.Get("Webhook-Id")]++
		b.header = r.Header.Get("X-Turn")
	default:
		b.refused = true
		w.WriteHeader(http.StatusInternalServerError)
	}
}

func (b *inbox) refuse(all bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.refuses, b.refused = all, false
}

func (b *inbox) hasRefused() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.refused
}

func (b *inbox) lastHeader() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.header
}
