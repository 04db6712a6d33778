package app_test

import (
	"bufio"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/cascade"
	"carillon/command/delivery/dispatching"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
)

// A destination that fails is disabled, enabled by its owner, and backfilled. Then the server stops, which answers a
// body of events that has no end, and starts: deliveries that waited arrive, and process managers that get all events
// again undo nothing.
func TestRestart(t *testing.T) {
	p := start(t, func(c *config.Config) { c.AutoDisableAfter, c.AutoDisableMinStreak = 3, 0 })
	failed, sealed := p.autoDisabled(), p.sealsAged()
	url, arrived := p.endpoint(func(w http.ResponseWriter, _ *http.Request, n int) {
		if n == 1 {
			w.Header().Set("Retry-After", "1")
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	later := p.connect("later", url, 0)
	waiting := deliveryOf(p.publish(), later)
	p.await(arrived)
	p.attempted(waiting, 1)
	processes := []string{autodisable.Name, cascade.Name, dispatching.Name}
	before := p.positions()
	answered := p.endlessBody()
	p.close()
	answered()
	p.sql("UPDATE carillon.checkpoints SET fingerprint = 'older' WHERE name = ANY($1)", processes)
	p.open() // an older fingerprint: they begin from nothing
	p.eventually("they have seen all events again", func() bool {
		if p.count("SELECT count(*) FROM carillon.checkpoints WHERE fingerprint = 'older'") != 0 {
			return false
		}
		now := p.positions()
		for _, name := range processes {
			if now[name].Position.Before(before[name].Position) {
				return false
			}
		}
		return true
	})
	if d := p.settled(waiting, "succeeded"); d["attemptCount"] != 2.0 {
		t.Errorf("the delivery that waited: %v", d)
	}
	sealed()
	if d := p.status("crm", "enabled"); d["statusReason"] != nil {
		t.Errorf("after all events came again: %v", d)
	}
	if again := p.settled(failed, "failed"); again["attemptCount"] != 3.0 {
		t.Errorf("the failed one was sent again: %v", again)
	}
}

// autoDisabled has a destination disabled by three failures, enabled and backfilled, and returns the delivery that
// failed.
func (p *process) autoDisabled() (failed string) {
	p.Helper()
	url, arrived := p.endpoint(statuses(500, 500, 500, 500, 200))
	destination, started := p.connect("crm", url, 0), time.Now()
	failed = deliveryOf(p.publish(), destination)
	p.settled(failed, "failed")
	disabled := p.status("crm", "auto_disabled")
	if reason, _ := disabled["statusReason"].(string); !strings.Contains(reason, "3 consecutive failed attempts") {
		p.Errorf("statusReason = %v", disabled["statusReason"])
	}
	missed := deliveryOf(p.announce("flood"), destination)
	window := map[string]any{
		"since": started.Add(-time.Minute).UTC().Format(time.RFC3339),
		"until": time.Now().Add(time.Minute).UTC().Format(time.RFC3339),
	}

	p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "disabled"}, http.StatusOK)
	if d := p.status("crm", "disabled"); d["statusReason"] != nil {
		p.Errorf("statusReason = %v, want null once the caller has changed the status", d["statusReason"])
	}
	if n := p.total(destinations + "crm/deliveries"); n != 1 {
		p.Errorf("%v deliveries, want none made while it was not enabled", n)
	}
	enabled := p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "enabled"}, http.StatusOK)
	assert.True(p, enabled["status"] == "enabled" && enabled["statusReason"] == nil, "enabled: %v", enabled)
	for _, want := range []float64{1, 0} {
		if made := p.backfill("crm", window, 2); made != want {
			p.Errorf("%v made, want %v", made, want)
		}
	}
	if d := p.settled(missed, "succeeded"); d["attemptCount"] != 2.0 {
		p.Errorf("a missed event: %v", d)
	}
	if d := p.status("crm", "enabled"); d["statusReason"] != nil {
		p.Errorf("one more failure after the way back disabled it again: %v", d)
	}
	for range 5 {
		p.await(arrived)
	}
	return failed
}

// endlessBody posts events in a body that does not end. answered expects the answer, which comes when the process
// stops, and says how many are recorded.
func (p *process) endlessBody() (answered func()) {
	p.Helper()
	token := p.adminToken()
	conn := must.Get(net.Dial("tcp", p.app.AdminAddr().String()))(p)
	p.Cleanup(func() { _ = conn.Close() })
	const events = 3
	sent := fmt.Sprintf("POST /admin/events HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer %s\r\n"+
		"Content-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n", token)
	for range events {
		line := strings.Replace(event(p.organization), "news.item.added", "news.item.updated", 1)
		sent += fmt.Sprintf("%x\r\n%s\n\r\n", len(line)+1, line)
	}
	must.Get(io.WriteString(conn, sent))(p)
	p.eventually("the first lines are recorded", func() bool {
		return p.count("SELECT count(*) FROM publications.publications WHERE type = 'news.item.updated'") == events
	})
	return func() {
		p.Helper()
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		must.True(p, err == nil, "no answer: %v", err)
		defer func() { _ = answer.Body.Close() }()
		text, err := io.ReadAll(answer.Body)
		assert.True(p, err == nil && answer.StatusCode == http.StatusServiceUnavailable &&
			strings.Contains(string(text), fmt.Sprintf("%d events were published", events)),
			"answered %d %s (%v)", answer.StatusCode, text, err)
	}
}

func (p *process) positions() map[string]projections.Status {
	p.Helper()
	statuses := must.Get(projections.Statuses(p.Context(), p.app.Queries.Pool))(p)
	named := map[string]projections.Status{}
	for _, s := range statuses {
		named[s.Name] = s
	}
	return named
}

func (p *process) url(ref string) string {
	p.Helper()
	config, _ := p.call(http.MethodGet, destinations+ref, nil, http.StatusOK)["config"].(map[string]any)
	return fmt.Sprint(config["url"])
}

// aged makes a destination as a version recorded it that did not seal addresses.
func (p *process) aged(url string) (ref string) {
	p.Helper()
	made := uuid.MustParse(p.destination("young"+rand.Text(), url, 0))
	known := must.Get(destination.Aggregate.Load(p.Context(), p.app.Commands.Store, made))(p)
	old := uuid.New()
	must.OK(p, p.app.Commands.Vault.Create(p.Context(), old))
	plain, err := p.app.Commands.Vault.Open(p.Context(), made, sealing.Secret, known.State.Secrets[0].Sealed)
	must.OK(p, err)
	sealed := must.Get(p.app.Commands.Vault.Seal(p.Context(), old, sealing.Secret, plain))(p)
	at := time.Now().UTC().Format(time.RFC3339)
	_, err = p.app.Commands.Store.Append(p.Context(), destination.Aggregate.Stream(old), eventstore.NoStream,
		[]eventstore.Proposed{
			{ID: uuid.New(), Type: "destination.created.v1", Data: fmt.Appendf(nil,
				`{"organization":%q,"name":"Old","url":%q,"headers":{},"debounceWindowSeconds":0,"at":%q}`,
				known.State.Organization, url, at)},
			{ID: uuid.New(), Type: "destination.secret-minted.v1", Data: fmt.Appendf(nil,
				`{"secretId":%q,"sealed":%q,"at":%q}`, uuid.New(), base64.StdEncoding.EncodeToString(sealed), at)},
		})
	must.OK(p, err)
	p.shown(old.String())
	return old.String()
}

// sealed returns the stored name and address of a destination, nothing if they are exposed.
func (p *process) sealed(ref string) (names []string) {
	p.Helper()
	known := must.Get(destination.Aggregate.Load(p.Context(), p.app.Commands.Store, uuid.MustParse(ref)))(p)
	if !known.State.Settings.Exposed() {
		names = append(names, known.State.Settings.Name, known.State.Settings.URL)
	}
	return names
}

// sealsAged makes destinations whose addresses are exposed: they receive webhooks, and are sealed when they are
// changed. restarted expects that the next start seals the others.
func (p *process) sealsAged() (restarted func()) {
	p.Helper()
	hook, arrived := p.endpoint(statuses(200))
	url := strings.TrimSuffix(hook, "hook") + "services/topsecret"
	first, second := p.aged(url), p.aged(url)
	if got := p.url(first); got != url {
		p.Errorf("its owner is shown %s, want %s", got, url)
	}
	_, audit := p.admin(http.MethodGet, "/admin/audit/destinations/"+first)
	assert.True(p, !strings.Contains(audit, "topsecret") && strings.Contains(audit, "services/…"),
		"the audit shows %s", audit)
	p.subscribe(first)
	p.publish()
	p.await(arrived)
	p.call(http.MethodPatch, destinations+second, map[string]any{"name": "Renamed"}, http.StatusOK)
	if got := p.sealed(second); !slices.Equal(got[:min(1, len(got))], []string{"Renamed"}) ||
		strings.Contains(got[1], "topsecret") {
		p.Errorf("after a change it is %v", got)
	}
	return func() {
		p.Helper()
		p.eventually("the other one is sealed", func() bool { return len(p.sealed(first)) > 0 })
		for _, ref := range []string{first, second} {
			if got := p.url(ref); got != url {
				p.Errorf("sealed, its owner is shown %s", got)
			}
		}
		p.publish()
		p.await(arrived)
	}
}
