package app_test

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/config"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/projections/pgtest"
)

// logged keeps what is logged.
type logged struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String is all of it so far.
func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// places are where something lies open among all files and in the log, as it is or encoded.
func (s thief) places(log *logged, what string) (where []string) {
	for _, form := range []string{what, base64.StdEncoding.EncodeToString([]byte(what)), fmt.Sprintf("%x", what)} {
		where = append(where, s.has([]byte(form))...)
		if strings.Contains(log.String(), form) {
			where = append(where, "the log")
		}
	}
	return where
}

func (p *process) url(ref string) string {
	p.Helper()
	config, _ := p.call(http.MethodGet, destinations+ref, nil, http.StatusOK)["config"].(map[string]any)
	return fmt.Sprint(config["url"])
}

// TestHostileAddressesLieNowhereOpen: what is secret of an address is in no file of the event store, the key store and
// Postgres, its log included, and in nothing that is logged: neither while deliveries go there and fail, nor afterwards.
func TestHostileAddressesLieNowhereOpen(t *testing.T) {
	database := pgtest.NewServer(t)
	conn, err := pgx.Connect(t.Context(), database.URL())
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, func(cfg *config.Config) { cfg.DatabaseURL = config.Address(database.URL()) })
	log := &logged{}
	p.close()
	p.alsoLog = log
	p.open()
	inPath, inQuery, alone, name := rand.Text(), rand.Text(), rand.Text(), rand.Text()
	hook, arrived := p.receiver(func(n int) int {
		if n < 3 {
			return http.StatusInternalServerError
		}
		return http.StatusOK
	})
	hook = strings.TrimSuffix(hook, "hook")
	url := hook + "services/T0/" + inPath + "?key=" + inQuery
	id := p.connect(name, url, 0)
	p.connect("alone", "https://127.0.0.1:1/"+alone, 0) // nobody is there: connecting fails
	p.connect("unknown", "https://hooks.example.invalid/services/"+inPath, 0)
	p.call(http.MethodPost, destinations+"alone/test", nil, http.StatusOK)
	p.call(http.MethodPost, destinations+"unknown/test", nil, http.StatusOK)
	p.call(http.MethodPost, destinations+"validate", map[string]any{"config": map[string]any{"url": "https://127.0.0.1:1/" + alone}}, http.StatusOK)
	p.call(http.MethodPatch, destinations+name, map[string]any{"name": "Moved", "config": map[string]any{"url": url}}, http.StatusOK)
	p.refused(http.MethodPatch, destinations+name, map[string]any{"config": map[string]any{"url": "http://10.0.0.1/" + alone}}, http.StatusBadRequest, "VALIDATION_FAILED")
	event := p.publish()
	for range 3 {
		p.await(arrived)
	}
	p.settled(deliveryOf(event, id), "succeeded")
	if got := p.url(name); got != url {
		t.Errorf("the owner is shown %s, want %s", got, url)
	}
	_, told := p.admin(http.MethodGet, "/admin/audit/destinations/"+id)
	if strings.Contains(told, inPath) || strings.Contains(told, inQuery) || !strings.Contains(told, hook+"services/…") {
		t.Errorf("auditors are told %s", told)
	}

	var cluster string
	if err := conn.QueryRow(t.Context(), "SHOW data_directory").Scan(&cluster); err != nil {
		t.Fatal(err)
	}
	look := func(when string) {
		if _, err := conn.Exec(t.Context(), "CHECKPOINT"); err != nil {
			t.Fatal(err)
		}
		files := p.steal(p.cfg.DataDir, cluster)
		store, postgres := false, false // the name lies open: where it is found, so would the others be
		for _, path := range files.has([]byte(name)) {
			store, postgres = store || strings.Contains(path, "/eventstore/"), postgres || strings.HasPrefix(path, cluster)
		}
		if !store || !postgres {
			t.Errorf("%s: the name is found in %v; the test shows nothing", when, files.has([]byte(name)))
		}
		for _, secret := range []string{inPath, inQuery, alone} {
			if where := files.places(log, secret); len(where) > 0 {
				t.Errorf("%s: a secret of an address is in %v", when, where)
			}
		}
	}
	look("while it is there")
	p.call(http.MethodDelete, destinations+name, nil, http.StatusOK)
	look("after it was deleted")
	if _, told := p.admin(http.MethodGet, "/admin/audit/destinations/"+id); strings.Contains(told, inPath) || !strings.Contains(told, hook+"services/…") {
		t.Errorf("after the deletion, auditors are told %s", told)
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestAddressesFromBeforeAreSealed: destinations of a version before addresses were sealed receive what is sent to them,
// and are sealed at the next start, or when they are changed.
func TestAddressesFromBeforeAreSealed(t *testing.T) {
	p := start(t, nil)
	hook, arrived := p.receiver(func(int) int { return http.StatusOK })
	url := strings.TrimSuffix(hook, "hook") + "services/topsecret"
	aged := func() string { // as the version before has recorded it
		made := uuid.MustParse(p.destination("young"+rand.Text(), url, 0))
		known, err := destination.Aggregate.Load(t.Context(), p.app.Commands.Store, made)
		if err != nil {
			t.Fatal(err)
		}
		old := uuid.New()
		if err := p.app.Commands.Vault.Create(t.Context(), old); err != nil {
			t.Fatal(err)
		}
		plain, err := p.app.Commands.Vault.Open(t.Context(), made, sealing.Secret, known.State.Secrets[0].Sealed)
		if err != nil {
			t.Fatal(err)
		}
		sealed, err := p.app.Commands.Vault.Seal(t.Context(), old, sealing.Secret, plain)
		if err != nil {
			t.Fatal(err)
		}
		at := time.Now().UTC().Format(time.RFC3339)
		_, err = p.app.Commands.Store.Append(t.Context(), destination.Aggregate.Stream(old), eventstore.NoStream, []eventstore.Proposed{
			{ID: uuid.New(), Type: "destination.created.v1", Data: fmt.Appendf(nil,
				`{"organization":%q,"name":"Old","url":%q,"headers":{},"debounceWindowSeconds":0,"at":%q}`, known.State.Organization, url, at)},
			{ID: uuid.New(), Type: "destination.secret-minted.v1", Data: fmt.Appendf(nil,
				`{"secretId":%q,"sealed":%q,"at":%q}`, uuid.New(), base64.StdEncoding.EncodeToString(sealed), at)},
		})
		if err != nil {
			t.Fatal(err)
		}
		p.shown(old.String())
		return old.String()
	}
	stored := func(ref string) (names []string) {
		known, err := destination.Aggregate.Load(t.Context(), p.app.Commands.Store, uuid.MustParse(ref))
		if err != nil {
			t.Fatal(err)
		}
		if !known.State.Settings.Exposed() {
			names = append(names, known.State.Settings.Name, known.State.Settings.URL)
		}
		return names
	}
	first, second := aged(), aged()
	if got := p.url(first); got != url {
		t.Errorf("its owner is shown %s, want %s", got, url)
	}
	_, told := p.admin(http.MethodGet, "/admin/audit/destinations/"+first)
	if strings.Contains(told, "topsecret") || !strings.Contains(told, "services/…") {
		t.Errorf("auditors are told %s", told)
	}
	p.subscribe(first)
	p.publish()
	p.await(arrived)

	p.call(http.MethodPatch, destinations+second, map[string]any{"name": "Renamed"}, http.StatusOK)
	if got := stored(second); !slices.Equal(got[:min(1, len(got))], []string{"Renamed"}) || strings.Contains(got[1], "topsecret") {
		t.Errorf("after a change it is %v", got)
	}
	p.restart()
	p.eventually("the other one is sealed", func() bool { return len(stored(first)) > 0 })
	for _, ref := range []string{first, second} {
		if got := p.url(ref); got != url {
			t.Errorf("sealed, its owner is shown %s", got)
		}
	}
	p.publish()
	p.await(arrived)
}
