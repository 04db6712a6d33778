package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/auditors"
	"carillon/projections/destinations"
	"carillon/query"
)

var postForms = regexp.MustCompile(`(?s)<form[^>]*method="post"[^>]*action="([^"]*)"`)

// showsAuditorsTheRecord: an auditor sees all existing and deleted destinations, and no form that changes something.
func (w *world) showsAuditorsTheRecord(t *testing.T) {
	t.Helper()
	library, _ := w.Organization(t, "Library")
	kept := w.destination(t, "Kept", receiver(t, 204, ""))
	gone := w.destination(t, "Given up", receiver(t, 204, ""))
	theirs := must.Get(w.Commands.CreateDestination(t.Context(), w.by(library),
		newDestination("Of the library", receiver(t, 204, ""))))(t)
	deleted := must.Get(w.Commands.DeleteDestination(t.Context(), w.by(w.org), command.DeleteDestination{ID: gone}))(t)
	w.subscribe(t, kept, "*")
	w.Await(t, deleted.Position, destinations.ReadModel.Name, audit.ReadModel.Name, dispatching.Name)
	w.projections.set(consumer("feeds", 3, nil))

	auditor, _ := w.auditor(t)
	auditor.get(t, "/console/").leads(t, "/console/record")
	auditor.get(t, "/console/record").expect(t, 200, "Kept", "Given up", "Of the library", "3 destinations", "Town hall",
		"Library")
	has := func(query string, want ...string) {
		t.Helper()
		p := auditor.get(t, "/console/record"+query).expect(t, 200, want...)
		for _, name := range []string{"Kept", "Given up", "Of the library"} {
			assert.Equal(t, strings.Contains(p.body, "<bdi>"+name), strings.Contains(strings.Join(want, "|"), name),
				"%s: %s is there, or not", query, name)
		}
	}
	has("?status=deleted", "Given up")
	has("?status=there", "Kept", "Of the library")
	has("?organization="+library.String(), "Of the library")
	has("?q=GIVEN", "Given up")
	has("?q="+kept.String()[:13], "Kept")
	has("?q=nothing", "There is none like that")
	auditor.get(t, "/console/record?status=x").expect(t, 400, "there or deleted")
	auditor.get(t, "/console/record?organization=x").expect(t, 400, "id of an organization")
	auditor.get(t, "/console/record/"+gone.String()).expect(t, 200, "Given up", "Time line", "made the secret", "deleted")
	auditor.get(t, "/console/record/"+gone.String()+"?moment=0").expect(t, 200, "As it was at")
	auditor.get(t, "/console/record/"+kept.String()).expect(t, 200, "Subscriptions", "<div>everything</div>")
	auditor.get(t, "/console/record/"+kept.String()+"?moment=0").lacks(t, "<div>everything</div>")
	auditor.get(t, "/console/record/"+uuid.NewString()).expect(t, 404, "Not found")
	auditor.get(t, "/console/system").expect(t, 200, "Consumers", "feeds").
		lacks(t, "Settings", "CARILLON_", "Rebuild<", "/data")

	for path, p := range auditor.walk(t, "/console/record") {
		for _, form := range postForms.FindAllStringSubmatch(p.body, -1) {
			assert.Equal(t, form[1], "/console/sign-out", "%s has a form to", path)
		}
		assert.True(t, !strings.Contains(path, "/organizations/") && !strings.Contains(path, "/sources"),
			"an auditor is led to %s", path)
	}
	inside := "/console/organizations/" + w.org.String()
	for _, path := range []string{"/console/organizations", "/console/sources", "/console/sources/try", inside + "/",
		inside + "/destinations/" + kept.String(), "/console/system/feeds/rebuild"} {
		auditor.get(t, path).expect(t, 403, "auditor's token")
	}
	for _, path := range []string{inside + "/destinations/" + kept.String() + "/disable", inside + "/destinations/" +
		kept.String() + "/delete", "/console/system/feeds/rebuild", "/console/sources/try", inside + "/destinations/new"} {
		auditor.post(t, path, "name", "x", "url", "https://example.org", "debounce", "0", "where", "https://example.org",
			"type", "site").expect(t, 403, "auditor's token")
	}
	w.operator(t).get(t, inside+"/destinations/"+kept.String()).expect(t, 200, "enabled")

	changes := "/console/record/changes"
	auditor.get(t, changes).expect(t, 200, "created Of the library", "issued key")
	auditor.get(t, changes+"?kind=destination&thing="+gone.String()).expect(t, 200, "deleted Given up").
		lacks(t, "Of the library")
	auditor.get(t, changes+"?kind=organization&thing="+library.String()).expect(t, 200, "Of the library")
	auditor.get(t, changes+"?thing=x").expect(t, 400, "must be chosen")
	auditor.get(t, changes+"?actor=key:unknown0").expect(t, 200, "There is none like that")
	auditor.get(t, changes+"/export?organization="+library.String()).expect(t, 200, "Of the library")
	one := auditor.get(t, "/console/record/"+gone.String()+"/export")
	got := lines(t, one.body)
	assert.True(t, got[gone] >= 3 && len(got) == 1, "%v", got)
	all := lines(t, auditor.get(t, "/console/record/export?organization="+library.String()).body)
	assert.True(t, len(all) == 1 && all[theirs.ID] != 0, "%v", all)
	d := one.header.Get("Content-Disposition")
	assert.True(t, strings.Contains(d, gone.String()), "%v", d)
}

// TestAuditorsOfOneOrganization: an auditor of one organization sees its destinations; all others look missing.
func TestAuditorsOfOneOrganization(t *testing.T) {
	w := open(t)
	library, _ := w.Organization(t, "Library")
	own := w.destination(t, "Kept", receiver(t, 204, ""))
	theirs := must.Get(w.Commands.CreateDestination(t.Context(), w.by(library),
		newDestination("Of the library", receiver(t, 204, ""))))(t)
	w.Await(t, theirs.Position, audit.ReadModel.Name)
	issued := must.Get(w.Commands.IssueAuditorToken(t.Context(), apitest.Operator, command.IssueAuditorToken{
		Name:         "Its board",
		Organization: w.org,
	}))(t)
	w.Await(t, issued.Position, auditors.ReadModel.Name)
	b := w.signInAt(t, w.admin, issued.Value.Reveal())
	for _, query := range []string{"", "?organization=" + library.String()} {
		b.get(t, "/console/record"+query).expect(t, 200, "Kept", "1 destination").lacks(t, "library")
		got := lines(t, b.get(t, "/console/record/export"+query).body)
		assert.True(t, len(got) == 1 && got[own] != 0, "%s: %v", query, got)
	}
	b.get(t, "/console/record/"+own.String()).expect(t, 200, "Time line")
	missing := b.get(t, "/console/record/"+uuid.NewString()).expect(t, 404, "Not found")
	for _, path := range []string{"", "/export"} {
		p := b.get(t, "/console/record/"+theirs.ID.String()+path).expect(t, 404, "Not found")
		if ids.ReplaceAllString(p.body, "") != ids.ReplaceAllString(missing.body, "") {
			t.Errorf("not as one that is missing:\n%s", p.shown(""))
		}
	}
	b.get(t, "/console/system").expect(t, 403, "of one organization")
}

// lines counts the entries of an export by destination.
func lines(t *testing.T, export string) map[uuid.UUID]int {
	t.Helper()
	counts := map[uuid.UUID]int{}
	for line := range strings.Lines(export) {
		var e query.AuditEntry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatal(err, line)
		}
		counts[e.Destination]++
	}
	return counts
}

func (w *world) showsTheSystem(t *testing.T) {
	t.Helper()
	behind := 75.0
	w.projections.set(
		consumer("feeds", 3, nil), consumer("deliveries", 2, &behind),
		adminapi.Projection{Name: "audit", Kind: "readModel", Stopped: "event 5 can't be decoded"},
		adminapi.Projection{Name: "dispatcher", Kind: "process", Process: "here:1"},
	)
	b := w.operator(t)
	b.get(t, "/console/").expect(t, 200, "Overview", "deliveries", "75 s", "event 5 can't be decoded", "nowhere",
		"2 others are up to date", "There are none yet", "None.")
	b.get(t, "/console/system").expect(t, 200, "v1.2.3", "5.0 MiB", "75 % of 100 B", "CARILLON_HTTP_ADDR",
		"127.0.0.1:8080", "75 s", "nowhere")
	b.get(t, "/console/system/feeds/rebuild").expect(t, 200, "Rebuild feeds?", "nothing is sent again")
	b.post(t, "/console/system/feeds/rebuild").leadsTo(t, "/console/system?done=rebuilding")
	b.get(t, "/console/system?done=rebuilding").expect(t, 200, "The current one serves", `value="40" max="100"`,
		"being rebuilt", "Reload")
	b.post(t, "/console/system/feeds/rebuild").expect(t, 409, "already being rebuilt")
	for _, name := range []string{"dispatcher", "none", "%2e%2e"} {
		b.get(t, "/console/system/"+name+"/rebuild").expect(t, 404, "Not found")
		b.post(t, "/console/system/"+name+"/rebuild").expect(t, 404, "Not found")
	}
	b.send(t, http.MethodPost, "/console/system/deliveries/rebuild", url.Values{},
		http.Header{"Sec-Fetch-Site": {"cross-site"}}).expect(t, 400, "nothing was changed")
}

// consumer is a read model that runs.
func consumer(name string, events int64, behind *float64) adminapi.Projection {
	return adminapi.Projection{
		Name:     name,
		Kind:     "readModel",
		Position: "7/7",
		Events:   events,
		Behind:   behind,
		Process:  "here:1",
	}
}

// set sets the consumers.
func (p *projections) set(list ...adminapi.Projection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.list = list
}

func (p page) leads(t *testing.T, location string) {
	t.Helper()
	if p.status != http.StatusFound || p.location != location {
		t.Errorf("%d to %q, want to %q\n%s", p.status, p.location, location, p.shown(""))
	}
}
