package app_test

import (
	"bytes"
	"cmp"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/config"
	"carillon/eventstore"
)

// account is an account on a platform, whose API answers as its documentation describes. The test decides its posts.
type account struct {
	*httptest.Server

	t            *testing.T
	platformType string
	token        string

	mu    sync.Mutex
	posts []posted // the newest first
}

// posted is a post of an account: a native event of the platform, or a text.
type posted struct {
	event, text string
	start, at   time.Time
}

const (
	accountName   = "kajhallen"
	accountNumber = "17841405309211844"
)

func newAccount(t *testing.T, platformType string) *account {
	t.Helper()
	a := &account{t: t, platformType: platformType, token: "s3cret-of-" + platformType}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// access sets how a server reaches the account's platform.
func (a *account) access(platforms *config.Platforms) {
	if platforms.Bases == nil {
		platforms.Bases = map[string]string{}
	}
	platforms.Bases[a.platformType] = a.URL
	entries := map[string]string{"instagram": "instagram:" + accountNumber, "tiktok": "tiktok:" + accountName}
	entry := cmp.Or(entries[a.platformType], a.platformType) + "=" + a.token + ","
	platforms.Tokens.Secret += config.Secret(entry)
	if err := platforms.Validate(); err != nil {
		a.t.Fatal(err)
	}
}

// announce posts a text that announces an event.
func (a *account) announce(title string, start time.Time) {
	a.post(posted{
		text: fmt.Sprintf("%s on %s, Market 1, Delft. Free entry.", title, start.Format("Monday 2 January 2006 at 15:04")),
	})
}

func (a *account) post(p posted) {
	a.mu.Lock()
	defer a.mu.Unlock()
	p.at = time.Now().UTC().Truncate(time.Second)
	a.posts = append([]posted{p}, a.posts...)
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "); token != a.token &&
		r.FormValue("access_token") != a.token {
		a.t.Errorf("%s is asked without its token: %s", a.platformType, r.URL.Path)
	}
	w.Header().Set("Content-Type", "application/json")
	path := a.platformType + " " + strings.ReplaceAll(r.URL.Path, accountName, "NAME")
	switch path {
	case "facebook /NAME/events":
		_ = json.MarshalWrite(w, map[string]any{"data": a.postsShown(true, "2006-01-02T15:04:05-0700")})
	case "facebook /NAME/posts":
		_ = json.MarshalWrite(w, map[string]any{"data": a.postsShown(false, "2006-01-02T15:04:05-0700")})
	case "instagram /" + accountNumber:
		_ = json.MarshalWrite(w, map[string]any{"business_discovery": map[string]any{
			"id": "1", "username": accountName, "name": "Kajhallen",
			"media": map[string]any{"data": a.postsShown(false, "2006-01-02T15:04:05-0700")},
		}})
	case "tiktok /video/list/":
		_ = json.MarshalWrite(w, map[string]any{
			"data":  map[string]any{"videos": a.postsShown(false, ""), "has_more": false},
			"error": map[string]any{"code": "ok"},
		})
	case "twitter /users/by/username/NAME":
		_ = json.MarshalWrite(w, map[string]any{"data": map[string]any{
			"id":       "2244994945",
			"name":     "Kajhallen",
			"username": accountName,
		}})
	case "twitter /users/2244994945/tweets":
		_ = json.MarshalWrite(w, map[string]any{
			"data": a.postsShown(false, time.RFC3339),
			"meta": map[string]any{"result_count": len(a.posts)},
		})
	default:
		a.t.Errorf("%s is asked for %s", a.platformType, r.URL)
		http.NotFound(w, r)
	}
}

// postsShown returns the posts with the fields of all platforms: each reads its own.
func (a *account) postsShown(events bool, layout string) []map[string]any {
	list := []map[string]any{}
	for i, p := range a.posts {
		if (p.event != "") != events {
			continue
		}
		id := fmt.Sprint(1000 + len(a.posts) - i)
		created := any(p.at.Format(layout))
		if layout == "" {
			created = p.at.Unix()
		}
		list = append(list, map[string]any{
			"id": id, "name": p.event, "start_time": p.start.Format(layout), "timezone": "Europe/Amsterdam", "type": "public",
			"message": p.text, "caption": p.text, "video_description": p.text, "text": p.text, "author_id": "2244994945",
			"created_time": created, "timestamp": created, "create_time": created, "created_at": created,
			"from": map[string]any{"id": "1", "name": "Kajhallen"}, "owner": map[string]any{"id": "1", "name": "Kajhallen"},
			"permalink_url": "https://www.facebook.com/1/posts/" + id, "permalink": "https://www.instagram.com/p/" + id + "/",
			"share_url": "https://www.tiktok.com/@" + accountName + "/video/" + id, "media_type": "IMAGE",
		})
	}
	return list
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
				if bytes.Contains(m.Event.Data, []byte(secret)) || bytes.Contains(m.Event.Metadata, []byte(secret)) {
					c.Errorf("a token is in %s", m.Event.Type)
				}
			}
		}
	}
}
