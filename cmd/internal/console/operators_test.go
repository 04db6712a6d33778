package console_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/webhook"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/auditors"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
)

// operator signs an operator in at the console beside the admin API.
func (w *world) operator(tb testing.TB) *browser {
	tb.Helper()
	return w.signInAt(tb, w.admin, adminToken)
}

// auditor signs an auditor in, and returns the id of the token.
func (w *world) auditor(tb testing.TB) (b *browser, id string) {
	tb.Helper()
	issued := must.Get(w.Commands.IssueAuditorToken(tb.Context(), apitest.Operator,
		command.IssueAuditorToken{Name: "Revision office"}))(tb)
	w.Await(tb, issued.Position, auditors.ReadModel.Name)
	return w.signInAt(tb, w.admin, issued.Value.Reveal()), issued.Value.ID
}

// suspend suspends the organization.
func (w *world) suspend(t *testing.T) {
	t.Helper()
	changed := must.Get(w.Commands.SuspendOrganization(t.Context(), apitest.Operator,
		command.SuspendOrganization{Organization: w.org, Reason: "unpaid"}))(t)
	w.Await(t, changed.Position, organizations.ReadModel.Name)
}

func (w *world) signInAt(tb testing.TB, at http.Handler, token string) *browser {
	tb.Helper()
	b := &browser{world: w, at: at}
	b.post(tb, "/console/sign-in", "key", token).leadsTo(tb, "/console/")
	return b
}

func TestConsoleAddresses(t *testing.T) {
	w := open(t)
	for name, at := range map[string]http.Handler{"api": w.handler, "admin": w.admin} {
		b := &browser{world: w, at: at}
		for _, accept := range []string{"text/html", "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"} {
			p := b.send(t, "GET", "/", nil, http.Header{"Accept": {accept}})
			assert.True(t, p.status == http.StatusFound && p.location == "/console/",
				"%s, %s: %d to %q", name, accept, p.status, p.location)
		}
		authorization := "Bearer " + map[string]string{"api": w.key, "admin": adminToken}[name]
		nothing := b.send(t, "GET", "/nothing", nil, http.Header{"Authorization": {authorization}})
		// Programs get a 404, with a key or without.
		for _, accept := range []string{"application/json", "*/*", "", "text/html;q=0"} {
			for _, header := range []http.Header{{}, {"Authorization": {authorization}}, {"Authorization": {"Bearer made up"}}} {
				header["Accept"] = []string{accept}
				for _, method := range []string{"GET", "HEAD"} {
					p := b.send(t, method, "/", nil, header)
					if p.status != 404 || p.body != nothing.body || p.header.Get("Content-Type") != nothing.header.Get(
						"Content-Type") {
						t.Errorf("%s, %s with %v: %d to %q: %s", name, method, header, p.status, p.location, p.shown(""))
					}
				}
			}
		}
		for _, p := range []page{
			b.send(t, "GET", "/nothing", nil, nil), b.send(t, "POST", "/", nil, nil),
			b.send(t, "GET", "/", nil, http.Header{"X-Forwarded-For": {"198.51.100.1"}, "X-Forwarded-Proto": {"http"}}),
		} {
			if p.status != 401 { // everything else requires a key first, and discloses nothing
				t.Errorf("%s: %d", name, p.status)
			}
		}
	}
}

// seesAllOrganizations: an operator sees each organization's pages like its people, and acts in the operator's name.
func (w *world) seesAllOrganizations(t *testing.T) {
	t.Helper()
	id := w.destination(t, "Hook", receiver(t, 204, ""))
	museum, _ := w.Organization(t, "Museum")
	b := w.operator(t)
	b.get(t, "/console/organizations").expect(t, 200, "Town hall", "Museum", "3 organizations")
	b.get(t, "/console/organizations?q=MUSE").expect(t, 200, "Museum", "1 organization").lacks(t, "Town hall")
	b.get(t, "/console/organizations?q="+w.org.String()[:9]).expect(t, 200, "Town hall", "1 organization")
	b.get(t, "/console/organizations?q=%00").expect(t, 400, "without NUL")
	b.get(t, "/console/organizations?page=2").expect(t, 200, "3 organizations")

	inside := "/console/organizations/" + w.org.String()
	b.get(t, inside+"/").expect(t, 200, "Overview", "Town hall")
	b.get(t, inside+"/destinations").expect(t, 200, "Hook", inside+"/destinations/"+id.String())
	path := inside + "/destinations/" + id.String()
	b.get(t, path+"/disable").expect(t, 200, `action="`+path+`/disable"`)
	b.post(t, path+"/disable").leadsTo(t, path+"?done=disabled")
	b.get(t, path).expect(t, 200, "by operator")
	made := b.post(t, inside+"/destinations/new", "name", "Second", "url", receiver(t, 204, ""), "debounce", "0")
	assert.True(t, made.status == http.StatusSeeOther && strings.HasPrefix(made.location, inside+"/destinations/"),
		"%d to %q", made.status, made.location)
	for path, p := range b.walk(t, inside+"/") {
		if p.status != 200 && path != "/console/" && path != "/console/sign-out" || strings.Contains(path,
			"/console/destinations") {
			t.Errorf("%s: %d", path, p.status)
		}
	}
	// It is missing under another organization.
	b.get(t, "/console/organizations/"+museum.String()+"/destinations/"+id.String()).expect(t, 404, "Not found")
	b.get(t, "/console/organizations/"+uuid.NewString()+"/").expect(t, 404, "Not found")
	b.get(t, "/console/organizations/x/").expect(t, 404, "Not found")
}

// TestSessionsOpenTheirOwnConsole: a session opens the console where it was started, and no other.
func TestSessionsOpenTheirOwnConsole(t *testing.T) {
	w := open(t)
	operator := w.operator(t)
	auditor, _ := w.auditor(t)
	for _, stolen := range []*browser{{world: w, cookie: operator.cookie}, {world: w, cookie: auditor.cookie}} {
		stolen.get(t, "/console/").leadsTo(t, "/console/sign-in")
	}
	(&browser{world: w, at: w.admin, cookie: w.signIn(t, w.key).cookie}).get(t, "/console/").leadsTo(t, "/console/sign-in")
	for _, token := range []string{w.key, "", adminToken + "x",
		"ca_AAAAAAAA_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"} {
		(&browser{
			world: w,
			at:    w.admin,
		}).post(t, "/console/sign-in", "key", token).expect(t, 401, "admin or auditor's token is not valid")
	}
	(&browser{world: w}).post(t, "/console/sign-in", "key", adminToken).expect(t, 401, "API key is not valid")
	assert.True(t, !strings.Contains(w.Logged.String(), adminToken), "the log has the admin token")
	(&browser{world: w, at: w.admin}).get(t, "/console/enter?token=x").leadsTo(t, "/console/sign-in")

	operator.post(t, "/console/sign-out").leadsTo(t, "/console/sign-in")
	(&browser{world: w, at: w.admin, cookie: operator.cookie}).get(t, "/console/").leadsTo(t, "/console/sign-in")
}

// TestSessionsOfTokensEnd: sessions end with their token.
func TestSessionsOfTokensEnd(t *testing.T) {
	w := open(t)
	auditor, id := w.auditor(t)
	auditor.get(t, "/console/organizations").expect(t, 403, "auditor's token")
	revoked := must.Get(w.Commands.RevokeAuditorToken(t.Context(), apitest.Operator,
		command.RevokeAuditorToken{TokenID: id}))(t)
	w.Await(t, revoked.Position, auditors.ReadModel.Name)
	auditor.get(t, "/console/organizations").leadsTo(t, "/console/sign-in?next=%2Fconsole%2Forganizations")

	operator := w.operator(t)
	exchanged := w.operatorsConsole(t, strings.Repeat("another token ", 4))
	(&browser{
		world:  w,
		at:     exchanged,
		cookie: operator.cookie,
	}).get(t, "/console/organizations").leadsTo(t, "/console/sign-in?next=%2Fconsole%2Forganizations")
	w.later.Store(int64(console.SessionLength + time.Second))
	operator.get(t, "/console/organizations").leadsTo(t, "/console/sign-in?next=%2Fconsole%2Forganizations")

	w.later.Store(0)
	guest, linked, unopened := w.signIn(t, w.key), w.enter(t, w.link(t)), w.link(t)
	w.suspend(t)
	for _, b := range []*browser{guest, linked} {
		b.get(t, "/console/").leadsTo(t, "/console/sign-in")
	}
	w.operator(t).get(t, "/console/organizations?q="+w.org.String()).expect(t, 200, "suspended")

	// After a resumption the key works again, but only new login links do.
	changed := must.Get(w.Commands.ResumeOrganization(t.Context(), apitest.Operator,
		command.ResumeOrganization{Organization: w.org}))(t)
	w.Await(t, changed.Position, organizations.ReadModel.Name)
	guest.get(t, "/console/").expect(t, 200)
	linked.get(t, "/console/").leadsTo(t, "/console/sign-in")
	(&browser{world: w}).post(t, "/console/enter", "token", unopened).expect(t, 401, "works once")
	w.enter(t, w.link(t)).get(t, "/console/").expect(t, 200)
}

// TestLoginLink_onceOnAllNodes: a link that is opened at two nodes at the same moment works once.
func TestLoginLink_onceOnAllNodes(t *testing.T) {
	w := open(t)
	second := *w
	second.handler = w.organizationsConsole(t)
	token := w.link(t)
	pages := make([]page, 8)
	var all sync.WaitGroup
	for i := range pages {
		node := []*world{w, &second}[i%2]
		all.Go(func() { pages[i] = (&browser{world: node}).post(t, "/console/enter", "token", token) })
	}
	all.Wait()
	in := 0
	for _, p := range pages {
		if p.status == http.StatusSeeOther {
			in++
		}
	}
	assert.Equal(t, in, 1, "got in")
	_, err := (adapters.ConsoleSessions{Pool: w.Pool}).Open(t.Context(), make([]byte, 32), time.Now())
	assert.True(t, err != nil, "a link that never was is opened")
}

// The operators' own address fails: the overview names it, without a link into an organization that is not there, and
// the record names its owner.
func TestOperatorsAddressIsNamed(t *testing.T) {
	w := openAlone(t) // the overview has the worst addresses, and the record begins with the newest
	secret := must.Get(webhook.ParseSecret("whsec_b25lIHNlY3JldCBvZiB0aGUgb3BlcmF0b3JzLCBsb25nIQ=="))(t)
	must.OK(t, w.Commands.SetOperatorWebhook(t.Context(), apitest.Operator,
		command.SetOperatorWebhook{URL: receiver(t, 204, ""), Secret: secret}))
	w.Newest(t, destinations.ReadModel, audit.ReadModel)
	id := must.Get(w.Queries.DestinationID(t.Context(), destination.Operators, destination.NoticesExternalID))(t)
	w.autoDisabled(t, id, "100 failures")
	operator := w.operator(t)
	operator.get(t, "/console/").expect(t, 200, "<bdi>Operators</bdi>", "<td>the operators</td>").
		lacks(t, destination.Operators.String())
	operator.get(t, "/console/record").expect(t, 200, "<bdi>the operators</bdi>")
	operator.get(t, "/console/record/"+id.String()).expect(t, 200, "of the operators, ")
	w.signIn(t, w.key).get(t, "/console/destinations").expect(t, 200, "There are none yet")
}
