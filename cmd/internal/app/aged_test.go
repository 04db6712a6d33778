package app_test

import (
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

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
