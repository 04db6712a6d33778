package console_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/console"
)

func mustID(t *testing.T, text string) uuid.UUID {
	t.Helper()
	id, err := uuid.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// TestForeignPagesAreMissing: feeds, items, events and deliveries of another organization look missing, to read and
// to change.
func TestForeignPagesAreMissing(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	own := s.signIn(t, s.key)
	_, otherKey := s.Organization(t, "Library")
	other := s.signIn(t, otherKey)
	feed := "/console/feeds/" + s.names["feed"]
	item, association := feed+"/items/"+s.names["item"], feed+"/sources/"+s.names["association"]+"/detach"
	missing := func(path string) string {
		for _, id := range s.names {
			if _, err := uuid.Parse(id); err == nil {
				path = strings.ReplaceAll(path, id, uuid.NewString())
			}
		}
		return path
	}
	same := func(what string, theirs, none page) {
		t.Helper()
		if theirs.status != 404 || none.status != 404 || ids.ReplaceAllString(theirs.body, "") != ids.ReplaceAllString(
			none.body, "") {
			t.Errorf("%s: %d, and not as one that is missing (%d):\n%s", what, theirs.status, none.status, theirs.shown(""))
		}
	}
	for _, path := range []string{
		feed, feed + "/edit", feed + "/delete", item, association, "/console/events/" + s.names["event"],
		"/console/deliveries/" + s.names["delivered"],
		"/console/deliveries/" + s.names["delivered"] + "/replay",
	} {
		own.get(t, path).expect(t, 200)
		same(path, other.get(t, path), other.get(t, missing(path)))
	}
	for _, change := range []struct {
		path  string
		pairs []string
	}{
		{feed + "/edit", []string{"name", "x", "description", "y", "enabled", "yes"}},
		{feed + "/delete", nil},
		{feed + "/sources/new", []string{"source", s.names["source"], "type", "site"}},
		{feed + "/sources/try", []string{"where", "https://example.org/concerts", "type", "site"}},
		{association, nil},
		{item + "/feedback", []string{"rating", "positive", "comment", ""}},
		{"/console/deliveries/" + s.names["delivered"] + "/replay", nil},
	} {
		same("POST "+change.path, other.post(t, change.path, change.pairs...), other.post(t, missing(change.path),
			change.pairs...))
	}
	own.get(t, feed).expect(t, 200, "Organ at noon", "Concerts in town", "example.org/concerts")
}

// TestReadersSeeNoForms: a session without the scope to write sees no form that changes something, and its requests
// are refused.
func TestReadersSeeNoForms(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	reader, writer := s.signIn(t, s.scoped(t, organization.ScopeRead)), s.signIn(t, s.key)
	feed := "/console/feeds/" + s.names["feed"]
	item := feed + "/items/" + s.names["item"]
	work := "/console/destinations/" + s.names["fails"]
	begun := s.interrupted(t)
	for path, forms := range map[string][]string{
		feed:                 {`action="` + feed + `/sources/try"`, "/detach\"", "/edit\"", "/delete\""},
		item:                 {`action="` + item + `/feedback"`},
		begun:                {`action="` + begun + `"`},
		work + "/deliveries": {"/replay?", "/backfill\""},
		"/console/deliveries/" + s.names["failed"]: {"/replay\""},
		"/console/feeds":        {"/feeds/new\""},
		"/console/destinations": {"/destinations/new\""},
	} {
		mine, theirs := writer.get(t, path).expect(t, 200), reader.get(t, path).expect(t, 200)
		for _, form := range forms {
			if !strings.Contains(mine.body, form) || strings.Contains(theirs.body, form) {
				t.Errorf("%s: %s is shown to who may write: %t, to who may not: %t", path, form, strings.Contains(mine.body, form),
					strings.Contains(theirs.body, form))
			}
		}
		if n := strings.Count(theirs.body, `method="post"`); n != 1 { // to sign out
			t.Errorf("%s: %d forms are shown to who may only read", path, n)
		}
	}
	for _, path := range []string{feed + "/sources/new", feed + "/sources/try",
		feed + "/sources/" + s.names["association"] + "/detach",
		item + "/feedback", feed + "/edit", feed + "/delete",
		"/console/feeds/new", work + "/replay", work + "/backfill", begun, "/console/deliveries/" + s.names["failed"] +
			"/replay"} {
		reader.post(t, path, "status", "failed", "rating", "positive", "source", s.names["source"], "type", "site", "name",
			"x", "description", "y").
			expect(t, 403, "lacks the scope write")
	}
	writer.get(t, feed).expect(t, 200, "Organ at noon", "example.org/concerts")
}

// interrupted returns the page of work that a process has left.
func (s *scene) interrupted(t *testing.T) string {
	t.Helper()
	w := console.Work{
		ID:           uuid.New(),
		Organization: s.org,
		Destination:  mustID(t, s.names["fails"]),
		Kind:         "replay",
		Status:       "failed",
		Until:        s.now(),
		Actor:        "console",
		Total:        3,
		Done:         1,
		State:        "stopped",
		Beat:         time.Now().UTC().Truncate(time.Microsecond),
	}
	if err := (adapters.ConsoleWorks{Pool: s.Pool}).Begin(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	return "/console/destinations/" + w.Destination.String() + "/work/" + w.ID.String()
}

// sentFrom posts a change from a page.
func (b *browser) sentFrom(t *testing.T, path, from string) page {
	t.Helper()
	return b.send(t, http.MethodPost, path, nil, http.Header{"Referer": {from}})
}

// TestEndedSession_leadsBack: after the end of a session, the sign-in leads back to the page, also after a form,
// which is not executed.
func TestEndedSession_leadsBack(t *testing.T) {
	t.Parallel()
	s := openAlone(t).scene(t) // a clock ahead ends all sessions
	b := s.signIn(t, s.key)
	at := "/console/destinations/" + s.names["works"]
	s.later.Store(int64(console.SessionLength + 1))
	b.get(t, at+"/deliveries?status=failed").leadsTo(t, "/console/sign-in?next="+url.QueryEscape(at+
		"/deliveries?status=failed"))
	signIn := `href="/console/sign-in?next=` + html.EscapeString(url.QueryEscape(at+"/disable")) + `"`
	if p := b.sentFrom(t, at+"/disable", "http://localhost"+at+"/disable").expect(t, 401,
		"the form was not submitted"); !strings.Contains(p.body, signIn) {
		t.Errorf("it does not lead back:\n%s", p.shown(""))
	}
	for _, from := range []string{"", "http://evil.example" + at, "http://localhost/elsewhere", "%%"} {
		b.sentFrom(t, at+"/disable", from).expect(t, 401, `href="/console/sign-in"`)
	}
	for i, text := range hostile() {
		b.post(t, at+"/edit", "name", text[:min(len(text), 1000)]).expect(t, 401).harmless(t, fmt.Sprintf("typed %d", i))
	}
	b.post(t, at+"/edit", "headers", strings.Repeat("x", 100_000)).expect(t, 400, "Form can't be read")
	b.post(t, "/console/sign-in", "key", s.key, "next", at+"/disable").leadsTo(t, at+"/disable")
	b.get(t, at+"/disable").expect(t, 200, "Disable")
	b.get(t, at).expect(t, 200, "enabled")
	if found, err := s.Queries.Destination(t.Context(), s.org, s.names["works"], s.now()); err != nil ||
		found.Status != "enabled" {
		t.Errorf("%+v, %v", found.Status, err)
	}
}
