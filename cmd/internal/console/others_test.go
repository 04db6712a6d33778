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

	"carillon/aggregates/disclosure"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/console"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
)

func mustID(t *testing.T, text string) uuid.UUID {
	t.Helper()
	id := must.Get(uuid.Parse(text))(t)
	return id
}

// TestForeignPagesAreMissing: feeds, items, events and deliveries of another organization look missing, to read and
// to change.
func TestForeignPagesAreMissing(t *testing.T) {
	s := newScene(t)
	own := s.signIn(t, s.key)
	_, otherKey := s.Organization(t, "Library")
	other := s.signIn(t, otherKey)
	feed := "/console/feeds/" + s.names["feed"]
	item, association := feed+"/items/"+s.names["item"], feed+"/sources/"+s.names["association"]+"/detach"
	works := "/console/destinations/" + s.names["works"]
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
	subscription := works + "/subscriptions/" + s.names["subscription"]
	paths := []string{subscription + "/delete"}
	for _, l := range looks {
		path := s.at(t, strings.ReplaceAll(l.path, "{fresh}", "{works}"))
		if path, _, _ = strings.Cut(path, "?"); ids.MatchString(path) {
			paths = append(paths, path)
		}
	}
	for _, path := range paths {
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
		{works + "/disable", nil}, {works + "/enable", nil}, {works + "/delete", nil}, {works + "/rotate", nil},
		{works + "/test", nil}, {works + "/validate", nil},
		{works + "/edit", []string{"name", "x", "url", "https://example.org", "debounce", "0"}},
		{subscription + "/edit", []string{"scope", "all", "types", "*", "seen", "0"}}, {subscription + "/enable", nil},
		{subscription + "/disable", nil}, {subscription + "/delete", nil},
		{works + "/subscriptions/new", []string{"scope", "all", "types", "*"}},
	} {
		same("POST "+change.path, other.post(t, change.path, change.pairs...), other.post(t, missing(change.path),
			change.pairs...))
	}
	own.get(t, feed).expect(t, 200, "Organ at noon", "Concerts in town", "example.org/concerts")
	own.get(t, works).expect(t, 200, "Ticket shop", "enabled")
	found := s.only(t, mustID(t, s.names["works"]))
	assert.True(t, found.Active && found.Revision == 0, "its subscription was changed: %+v", found)
}

// TestReadersSeeNoForms: a session without the scope to write sees no form that changes something, and its requests
// are refused.
func TestReadersSeeNoForms(t *testing.T) {
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
	_, path := s.begun(t, mustID(t, s.names["fails"]), func(w *console.Work) { w.State = "stopped" })
	return path
}

// begun begins the replay of three failed deliveries, of which one is done, as another process does. It returns it as
// it was changed, and the path to its page.
func (w *world) begun(t *testing.T, destination uuid.UUID, change func(*console.Work)) (console.Work, string) {
	t.Helper()
	now := time.Now().UTC().Truncate(time.Microsecond)
	work := console.Work{
		ID:           uuid.New(),
		Organization: w.org,
		Destination:  destination,
		Kind:         "replay",
		Status:       "failed",
		Until:        now.Add(time.Hour),
		Actor:        "console",
		Total:        3,
		Done:         1,
		State:        "running",
		Beat:         now,
	}
	change(&work)
	must.OK(t, (adapters.ConsoleWorks{Pool: w.Pool}).Begin(t.Context(), work))
	return work, "/console/destinations/" + destination.String() + "/work/" + work.ID.String()
}

// sentFrom posts a change from a page.
func (b *browser) sentFrom(t *testing.T, path, from string) page {
	t.Helper()
	return b.send(t, http.MethodPost, path, nil, http.Header{"Referer": {from}})
}

// TestEndedSession_leadsBack: after the end of a session, the sign-in leads back to the page, also after a form,
// which is not executed.
func TestEndedSession_leadsBack(t *testing.T) {
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
	assert.Equal(t, must.Get(s.Queries.Destination(t.Context(), s.org, s.names["works"], s.now()))(t).Status, "enabled",
		"Status")
}

// TestHostileScopesAtTheConsole: a key's scopes hold at the console too, and it omits the buttons that they exclude.
func TestHostileScopesAtTheConsole(t *testing.T) {
	w := open(t)
	id := w.destination(t, "CRM", "https://127.0.0.1:1/hook/topsecret")
	in := func(scopes ...organization.Scope) *browser {
		return w.signIn(t, w.scoped(t, scopes...))
	}
	path := "/console/destinations/" + id.String()
	found, err := w.Queries.Destination(t.Context(), w.org, id.String(), w.now())
	must.True(t, err == nil && len(found.Secrets) == 1, "%v %v", found, err)
	reveal := path + "/secrets/" + found.Secrets[0].ID.String() + "/reveal"

	owner := in("read", "write", "secrets")
	for _, page := range []string{path, path + "/edit", path + "/test"} {
		owner.get(t, page).expect(t, 200, "https://127.0.0.1:1/hook/topsecret")
	}
	operators := "/console/organizations/" + w.org.String() + "/destinations"
	owner.get(t, "/console/destinations").expect(t, 200, "https://127.0.0.1:1/hook/…")
	for page, who := range map[string]*browser{"/console/destinations": in("read"), path: in("read"), path +
		"/test": in("read", "write"),
		operators: w.operator(t), operators + "/" + id.String(): w.operator(t), operators + "/" + id.String() +
			"/test": w.operator(t)} {
		who.get(t, page).expect(t, 200, "https://127.0.0.1:1/hook/…").lacks(t, "topsecret")
	}

	reader := in("read")
	reader.get(t, path).expect(t, 200, "CRM").lacks(t, "/test\"", "/edit\"", "/disable\"", "/delete\"", "/rotate\"",
		"/reveal\"", "/subscriptions/")
	one := "subscriptions/" + uuid.NewString()
	for _, change := range []string{"test", "edit", "disable", "delete", "rotate", "validate", "subscriptions/new",
		one + "/edit", one + "/enable", one + "/disable", one + "/delete"} {
		reader.get(t, path+"/"+change).expect(t, 403, "This session lacks the scope write: sign in with a key or link")
		reader.post(t, path+"/"+change).expect(t, 403, "lacks the scope write")
	}
	reader.post(t, "/console/destinations/new", "name", "x", "url", "https://127.0.0.1:1/").expect(t, 403,
		"lacks the scope write")
	reader.get(t, reveal).expect(t, 403, "lacks the scope secrets")
	reader.post(t, reveal).expect(t, 403, "lacks the scope secrets")

	writer := in("read", "write")
	writer.get(t, path).expect(t, 200, "/disable\"")
	writer.get(t, path+"/edit").expect(t, 403, "lacks the scope secrets")
	writer.post(t, reveal).expect(t, 403, "lacks the scope secrets")
	writer.post(t, path+"/disable").leadsTo(t, path+"?done=disabled")
	in("write").get(t, path).expect(t, 403, "lacks the scope read")
	in("read", "secrets").post(t, reveal).expect(t, 200, "whsec_")
	w.operator(t).post(t, "/console/organizations/"+w.org.String()+"/destinations/"+id.String()+"/secrets/"+
		found.Secrets[0].ID.String()+"/reveal").
		expect(t, 403, "for the people of the organization")
}

// TestHostileDisclosuresAreRecorded: every secret shown in full is in the audit trail, for the organization and for
// auditors.
func TestHostileDisclosuresAreRecorded(t *testing.T) {
	w := open(t)
	id := w.destination(t, "CRM", "https://127.0.0.1:1/hook/topsecret")
	path := "/console/destinations/" + id.String()
	found, err := w.Queries.Destination(t.Context(), w.org, id.String(), w.now())
	must.True(t, err == nil && len(found.Secrets) == 1, "%v %v", found, err)
	w.signIn(t, w.scoped(t, "read")).get(t, path).expect(t, 200, "None yet")
	owner := w.signIn(t, w.scoped(t, "read", "secrets"))
	for range 3 {
		owner.get(t, path).expect(t, 200, "topsecret")
		owner.post(t, path+"/secrets/"+found.Secrets[0].ID.String()+"/reveal").expect(t, 200, "whsec_")
	}
	last := w.lastDisclosure(t, id)
	w.Await(t, last, audit.ReadModel.Name)
	for page, who := range map[string]*browser{path: owner, "/console/record/" + id.String(): w.operator(t)} {
		shown := who.get(t, page).expect(t, 200, "Shown in full")
		if n := strings.Count(shown.body, "<small>to key:"); n != 2 {
			t.Errorf("%s has %d disclosures, want one of the address and one of the secret:\n%s", page, n, shown.shown(""))
		}
	}
}

// lastDisclosure returns the last disclosure of a destination.
func (w *world) lastDisclosure(t *testing.T, id uuid.UUID) (at eventstore.Position) {
	t.Helper()
	for recorded, err := range w.Store.Read(t.Context(), disclosure.Aggregate.Stream(disclosure.StreamID(id, w.now())),
		0) {
		must.OK(t, err)
		at = recorded.Position
	}
	return at
}

// scoped creates a key with some scopes.
func (w *world) scoped(t *testing.T, scopes ...organization.Scope) string {
	t.Helper()
	return w.IssueKey(t, w.org, nil, scopes...)
}
