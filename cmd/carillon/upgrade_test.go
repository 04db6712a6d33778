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
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/dev"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// releaseBefore is upgraded from as long as no release has a tag. It is the oldest commit that may be rolled back to:
// older ones have other homes of data keys.
const releaseBefore = "7b4723de7493db903a46cd6de66b3a6b63e7791d"

// releaseBeside is the oldest commit that may serve beside another version, as long as no release has a tag.
const releaseBeside = "69a51c34c9dc3a04f82b28f566872c52a3ea3165"

const this = "bin/carillon" // the program of this commit

// succession is a data directory and a Postgres on which programs serve, one after the other or two at once.
type succession struct {
	workplace
	*inbox

	key, path string // of the destination
	data      string
	database  string
	flags     string // by which commands find the server that was started last
	stop      func() // of that server
	secrets   string
	published atomic.Int64
}

// TestUpgradeAndRollback upgrades each release before to this program, and rolls it back. All deliveries arrive once.
func TestUpgradeAndRollback(t *testing.T) {
	t.Parallel()
	for _, release := range releases(t) {
		t.Run(release, func(t *testing.T) {
			t.Parallel()
			before := build(t, release)
			t.Run("in turn", func(t *testing.T) { newSuccession(t).inTurn(before) })
			if release != releaseBefore { // which takes tables back from the process that has claimed them
				t.Run("at once", func(t *testing.T) { newSuccession(t).atOnce(before) })
			}
		})
	}
}

// releases are those that this commit follows.
func releases(t *testing.T) []string {
	t.Helper()
	git := func(args ...string) string {
		command := exec.CommandContext(t.Context(), "git", args...)
		command.Dir = root
		out, err := command.Output()
		if err != nil {
			t.Skipf("git %q: %v", args, err)
		}
		return strings.TrimSpace(string(out))
	}
	if git("rev-parse", "--is-shallow-repository") != "false" {
		t.Skip("the history is not here")
	}
	tags := strings.Fields(git("tag", "--list", "v[1-9]*", "--merged", "HEAD", "--no-contains", "HEAD"))
	if len(tags) == 0 {
		return strings.Fields(git("rev-parse", releaseBefore+"^{commit}", releaseBeside+"^{commit}"))
	}
	return tags
}

// build builds a release as make build does, so that the next run finds what is compiled in Go's cache.
func build(t *testing.T, release string) (program string) {
	t.Helper()
	dir := t.TempDir()
	program = filepath.Join(dir, "carillon")
	const script = `git archive --output "$2/source.tar" "$1"
		cd "$2"; tar -xf source.tar; CGO_ENABLED=0 go build -trimpath -o "$3" ./cmd/carillon`
	//nolint:gosec // of this test
	command := exec.CommandContext(t.Context(), "sh", "-e", "-c", script, "sh", release, dir, program)
	command.Dir = root
	out, err := command.CombinedOutput()
	must.True(t, err == nil, "build %s: %v: %s", release, err, out)
	return program
}

func newSuccession(t *testing.T) *succession {
	t.Helper()
	i := &succession{workplace: newWorkplace(t), inbox: newInbox(t), database: pgtest.URL(t)}
	i.data = filepath.Join(i.dir, "data")
	i.env = append(i.env, "CARILLON_DATA_DIR="+i.data, "CARILLON_DATABASE_URL="+i.database, "CARILLON_EGRESS_CA="+i.authority,
		"CARILLON_DELIVERY_RETRY_SCHEDULE="+strings.Repeat("1s,", 49)+"1s")
	return i
}

// inTurn has the programs serve one after the other: each reads what was written before and delivers what was left.
func (i *succession) inTurn(before string) {
	for turn, program := range []string{before, this, before, this} {
		i.start(program)
		i.change(fmt.Sprint("turn ", turn))
		i.delivered()
		if program == this {
			i.verify()
		}
		i.leaveSome()
	}
	database := must.Get(pgx.Connect(i.Context(), i.database))(i)
	must.Get(database.Exec(i.Context(), "INSERT INTO carillon.required_versions VALUES ('99.0.0', 'a test')"))(i)
	must.OK(i, database.Close(i.Context()))
	out, err := i.command(this + " serve --dev").CombinedOutput()
	assert.True(i, err != nil && strings.Contains(string(out), "start 99.0.0 or a newer one"),
		"ruled out by 99.0.0: %v, %s", err, out)
}

// atOnce has the programs serve on one event store, each beside the other and then alone, while events are published.
func (i *succession) atOnce(before string) {
	store := nodetest.Listen(i, node.Config{Dir: filepath.Join(i.dir, "store")})
	i.env = append(i.env, "CARILLON_EVENTSTORE_URL=esdb://"+store+"?tls=false")
	i.start(before)
	i.change("first")
	for turn, program := range []string{this, before, this} {
		older, stopOlder := i.flags, i.stop
		i.underLoad([]string{older}, func() { i.start(program) })
		serving := []string{i.flags}
		if i.serves(older) {
			serving = append(serving, older)
		}
		i.underLoad(serving, func() { i.change(fmt.Sprint("turn ", turn)) })
		i.underLoad([]string{i.flags}, stopOlder)
		i.delivered()
		i.ready(i.flags)
		if program == this {
			i.verify()
		}
	}
}

// change reads the secrets of the destination, which the first server makes, and changes a header.
func (i *succession) change(header string) {
	i.Helper()
	settings := fmt.Sprintf(`{"name":"CRM","config":{"url":%q,"headers":{"x-turn":%q}}}`, i.address, header)
	if i.secrets == "" {
		ask(i.T, i.key, http.MethodPut, i.path, settings, http.StatusCreated)
		ask(i.T, i.key, http.MethodPost, i.path+"/subscriptions", `{"eventTypes":["*"],"scopeKind":"all"}`, http.StatusCreated)
		i.secrets = ask(i.T, i.key, http.MethodGet, i.path+"/secrets", "", http.StatusOK)
	}
	if got := ask(i.T, i.key, http.MethodGet, i.path+"/secrets", "", http.StatusOK); got != i.secrets {
		i.Errorf("%s: the secrets are %s, want %s", header, got, i.secrets)
	}
	ask(i.T, i.key, http.MethodPatch, i.path, settings, http.StatusOK)
	i.publish(10, i.flags)
	must.Eventually(i, "the receiver gets x-turn "+header, func() bool { last, _ := i.last(); return last == header })
}

// underLoad publishes events by servers while something happens.
func (i *succession) underLoad(flags []string, do func()) {
	var over atomic.Bool
	var load sync.WaitGroup
	load.Go(func() {
		for batch := 0; !over.Load(); batch++ {
			i.publish(20, flags[batch%len(flags)])
		}
	})
	defer load.Wait()
	defer over.Store(true)
	do()
}

// ready checks that a server is ready: no consumer has stopped.
func (i *succession) ready(flags string) {
	i.Helper()
	must.Eventually(i, "the server is ready", func() bool { return i.command(this+" status"+flags).Run() == nil })
}

// serves reports whether a server serves beside one that was started later, and does not stand by, as that has claimed
// tables of another version.
func (i *succession) serves(flags string) (yes bool) {
	i.Helper()
	must.Eventually(i, "the server serves or stands by", func() bool {
		out, err := i.command(this + " status" + flags).CombinedOutput()
		yes = err == nil
		return yes || strings.Contains(string(out), "of another version of Carillon")
	})
	return yes
}

// start has a program serve, and waits until it is ready.
func (i *succession) start(program string) {
	i.Helper()
	api, admin, stop := i.serve(program + " serve --dev")
	i.stop, i.flags = stop, " --admin-addr "+admin
	i.ready(i.flags)
	i.key = must.Get(dev.ReadKey(i.data))(i)
	i.path = "http://" + api + "/events/destinations/crm"
}

// publish publishes n events by a server.
func (i *succession) publish(n int, flags string) {
	event := fmt.Sprintf(`{"type":"factcheck.status.changed","source":"/f","subject":"c-1","organizationId":%q,`+
		`"data":{"id":"c-1","status":"queued"}}`, app.DevelopmentOrganization)
	out, err := i.command(fmt.Sprintf("yes '%s' | head -n %d | %s publish -%s", event, n, this, flags)).CombinedOutput()
	if err != nil {
		i.Errorf("publish: %v: %s", err, out)
	}
	i.published.Add(int64(n))
}

// delivered waits until all deliveries are succeeded, and checks that each was received once.
func (i *succession) delivered() {
	i.Helper()
	var answer struct{ Data struct{ Total int } }
	must.Eventually(i, "all is delivered", func() bool {
		text := ask(i.T, i.key, http.MethodGet, i.path+"/deliveries?status=succeeded", "", http.StatusOK)
		must.OK(i, json.Unmarshal([]byte(text), &answer))
		return answer.Data.Total == int(i.published.Load())
	})
	i.mu.Lock()
	defer i.mu.Unlock()
	if published := int(i.published.Load()); len(i.received) != published {
		i.Errorf("%d of %d deliveries were received", len(i.received), published)
	}
	for id, times := range i.received {
		assert.True(i, times == 1, "%s was received %d times", id, times)
	}
}

// verify seals the log, and compares all read models with it.
func (i *succession) verify() {
	i.Helper()
	i.run(this + " audit seal" + i.flags)
	i.run(this + " audit verify")
	for _, model := range app.ReadModels() {
		must.Eventually(i, model.Name+" is verified", func() bool { // it may not be complete yet
			out, err := i.command("bin/carillon projections verify " + model.Name + i.flags).CombinedOutput()
			must.True(i, !strings.Contains(string(out), "DIFFERS"), "%v", string(out))
			return err == nil
		})
	}
}

// leaveSome stops the server while deliveries wait to be tried again.
func (i *succession) leaveSome() {
	i.Helper()
	i.refuse(true)
	i.publish(100, i.flags)
	must.Eventually(i, "the receiver has refused it", func() bool { _, refused := i.last(); return refused })
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

// last returns x-turn of the last request that was taken, and whether one was refused.
func (b *inbox) last() (header string, refused bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.header, b.refused
}
