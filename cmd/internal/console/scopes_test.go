package console_test

import (
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/disclosure"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore"
	"carillon/projections/audit"
	"carillon/projections/organizations"
)

// TestHostileScopesAtTheConsole: a key's scopes hold at the console too, and it omits the buttons that they exclude.
func TestHostileScopesAtTheConsole(t *testing.T) {
	t.Parallel()
	w := open(t)
	id := w.destination(t, "CRM", "https://127.0.0.1:1/hook/topsecret")
	in := func(scopes ...organization.Scope) *browser {
		return w.signIn(t, w.scoped(t, scopes...))
	}
	path := "/console/destinations/" + id.String()
	found, err := w.Queries.Destination(t.Context(), w.org, id.String(), w.now())
	if err != nil || len(found.Secrets) != 1 {
		t.Fatal(found, err)
	}
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
		if shown := who.get(t, page).expect(t, 200, "https://127.0.0.1:1/hook/…"); strings.Contains(shown.body, "topsecret") {
			t.Errorf("%s shows an address in full to who may not see it", page)
		}
	}

	reader := in("read")
	shown := reader.get(t, path).expect(t, 200, "CRM")
	for _, button := range []string{"/test\"", "/edit\"", "/disable\"", "/delete\"", "/rotate\"", "/reveal\""} {
		if strings.Contains(shown.body, button) {
			t.Errorf("a reader is shown %s", button)
		}
	}
	for _, change := range []string{"test", "edit", "disable", "delete", "rotate", "validate"} {
		reader.get(t, path+"/"+change).expect(t, 403, "lacks the scope write")
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
	t.Parallel()
	w := open(t)
	id := w.destination(t, "CRM", "https://127.0.0.1:1/hook/topsecret")
	path := "/console/destinations/" + id.String()
	found, err := w.Queries.Destination(t.Context(), w.org, id.String(), w.now())
	if err != nil || len(found.Secrets) != 1 {
		t.Fatal(found, err)
	}
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
		if err != nil {
			t.Fatal(err)
		}
		at = recorded.Position
	}
	return at
}

// scoped creates a key with some scopes.
func (w *world) scoped(t *testing.T, scopes ...organization.Scope) string {
	t.Helper()
	issued, err := w.Commands.IssueKey(t.Context(), apitest.Operator, command.IssueKey{
		Organization: w.org,
		Scopes:       scopes,
	})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, issued.Position, organizations.ReadModel.Name)
	return issued.Value.Reveal()
}
