package app_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/config"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// account is an account on Facebook, whose API answers as its documentation describes. The test decides its posts.
type account struct {
	*httptest.Server
	t *testing.T

	mu            sync.Mutex
	events, posts []map[string]any // the newest first
}

const (
	accountName  = "kajhallen"
	accountToken = "s3cret-of-facebook"
	facebookTime = "2006-01-02T15:04:05-0700"
)

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{t: t}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// access sets how a server reaches the account.
func (a *account) access(platforms *config.Platforms) {
	platforms.Bases = map[string]string{"facebook": a.URL}
	platforms.Tokens.Secret = "facebook=" + accountToken
	must.OK(a.t, platforms.Validate())
}

// hold adds an event of the platform.
func (a *account) hold(title string, start time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, map[string]any{
		"id": "1", "name": title, "start_time": start.Format(facebookTime), "timezone": "Europe/Amsterdam", "type": "public",
	})
}

// post adds a post, which may announce an event.
func (a *account) post(id, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts = append([]map[string]any{{
		"id": id, "message": text, "created_time": time.Now().UTC().Format(facebookTime),
		"permalink_url": "https://www.facebook.com/1/posts/" + id,
		"from":          map[string]any{"id": "1", "name": "Kajhallen"},
	}}, a.posts...)
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	data, known := map[string]any{"/events": a.events, "/posts": a.posts}[strings.TrimPrefix(r.URL.Path, "/"+accountName)]
	if !known || token != accountToken && r.FormValue("access_token") != accountToken {
		a.t.Errorf("asked for %s, by its token: %t", r.URL.Path, known)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, map[string]any{"data": data})
}

// expectNoSecrets looks into everything that was recorded.
func (c *collecting) expectNoSecrets(secrets ...string) {
	c.Helper()
	for m, err := range c.events.Subscribe(c.Context(), eventstore.Start, eventstore.Filter{}) {
		switch {
		case err != nil:
			c.Fatal(err)
		case m.CaughtUp:
			return
		case m.Event != nil:
			for _, secret := range secrets {
				assert.True(c, !bytes.Contains(m.Event.Data, []byte(secret)) && !bytes.Contains(m.Event.Metadata, []byte(secret)),
					"a token is in %s", m.Event.Type)
			}
		}
	}
}
