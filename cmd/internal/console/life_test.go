package console_test

import (
	"html"
	"regexp"
	"strings"
	"testing"

	"carillon/command/catalog"
	"carillon/eventstore"
)

// TestDestinationLifecycle: actions at the console work as at the API, and the next page shows them.
func TestDestinationLifecycle(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := w.signIn(t, w.key)
	address := receiver(t, 204, "")
	b.post(t, "/console/destinations/new", "name", "", "url", address, "debounce", "0").expect(t, 400,
		"Name must not be empty", address)
	b.post(t, "/console/destinations/new", "name", "Hook", "url", address, "debounce", "soon").expect(t, 400,
		"a number of seconds", "soon")
	b.post(t, "/console/destinations/new", "name", "Hook", "url", address, "debounce", "0", "headers",
		"no colon").expect(t, 400, "a header a line")
	b.post(t, "/console/destinations/new", "name", "Hook", "url", "http://10.0.0.1/", "debounce", "0").expect(t, 400)
	b.get(t, "/console/destinations").expect(t, 200, "/console/destinations/new?notices")
	noticesForm := []string{`value="carillon.notices"`}
	for _, notice := range catalog.Notices {
		if !notice.Operators {
			noticesForm = append(noticesForm, notice.Type, notice.When)
		}
	}
	b.get(t, "/console/destinations/new?notices").expect(t, 200, noticesForm...)
	for _, limit := range []string{"many", "0", "-1", "NaN", "1e9"} {
		b.post(t, "/console/destinations/new", "name", "Hook", "url", address, "debounce", "0", "limit", limit).
			expect(t, 400, "Requests per second must be", `value="`+limit+`"`)
	}
	made := b.post(t, "/console/destinations/new", "name", "Hook", "url", address, "debounce", "5", "headers",
		"X-Tenant: hall", "externalId", "hook-1", "limit", "0.5", "traceparent", "yes")
	path, _, _ := strings.Cut(made.location, "/start?")
	b.get(t, made.location).expect(t, 200, "The destination was created.", "Hook", "nothing is sent", "Send a test")
	b.get(t, path).expect(t, 200, "Hook", address, "5 s", "0.5 requests/s", "<dt>traceparent</dt><dd>sent</dd>",
		"its first secret")
	b.get(t, path+"/edit").expect(t, 200, "X-Tenant: hall", "hook-1", `name="limit" inputmode="decimal" value="0.5"`,
		`name="traceparent" value="yes" checked`)
	b.post(t, path+"/edit", "name", "Hook two", "url", address, "debounce", "0").leadsTo(t, path+"?done=saved")
	if p := b.get(t, path).expect(t, 200, "Hook two", "Custom headers", "none",
		"headers: X-Tenant removed"); strings.Contains(p.body, "<dt>traceparent</dt>") {
		t.Error("traceparent is still sent")
	}

	b.get(t, path+"/rotate").expect(t, 200, "also sign for another 24 hours")
	b.post(t, path+"/rotate", "why", "line\nbreak").expect(t, 400, "Why must be plain text")
	rotated := b.post(t, path+"/rotate", "why", "leaked in chat").expect(t, 200, "There is a new secret.", "data-copy")
	if w.lastDisclosure(t, mustID(t, strings.TrimPrefix(path, "/console/destinations/"))) == eventstore.Start {
		t.Error("that the new secret was shown is not recorded")
	}
	b.get(t, path).expect(t, 200, "reason: leaked in chat")
	shown := b.get(t, path).expect(t, 200, "beside its successor", "Expire now")
	secret := regexp.MustCompile(path + `/secrets/[0-9a-f-]+/reveal`).FindString(shown.body)
	if strings.Count(shown.body, "whsec_…") != 2 {
		t.Error("there are not two masked secrets")
	}
	b.get(t, secret).expect(t, 200, "shown in full on the next page")
	revealed := b.post(t, secret).expect(t, 200, "whsec_")
	full := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{40,}`).FindString(html.UnescapeString(revealed.body))
	if !strings.Contains(html.UnescapeString(rotated.body), full) {
		t.Error("the answer to the rotation does not have the new secret")
	}
	if full == "" || strings.Contains(w.Logged.String(), full) || !strings.Contains(w.Logged.String(), "revealed=") {
		t.Error("the secret is not shown, or the log has it, or does not have that it was asked for")
	}
	b.post(t, strings.TrimSuffix(secret, "reveal")+"expire").expect(t, 409, "last secret without an end")
	overlapping := regexp.MustCompile(path+`/secrets/[0-9a-f-]+/expire`).FindAllString(shown.body, -1)
	if len(overlapping) != 1 {
		t.Fatalf("%d secrets can be expired, want the one in its overlap", len(overlapping))
	}
	b.post(t, overlapping[0]).leadsTo(t, path+"?done=expired")

	b.post(t, path+"/test").expect(t, 200, "It took the event: 204")
	b.post(t, path+"/validate").expect(t, 200, "It answered 204")
	b.post(t, path+"/disable").leadsTo(t, path+"?done=disabled")
	b.get(t, path).expect(t, 200, "disabled", "Enable")
	b.post(t, path+"/enable").leadsTo(t, path+"?done=enabled")
	b.get(t, path+"/delete").expect(t, 200, "shredded", "can't be undone")
	b.post(t, path+"/delete").leadsTo(t, "/console/destinations?done=deleted")
	gone := b.get(t, path).expect(t, 200, "deleted", "History", "Hook two")
	if strings.Contains(gone.body, "/rotate") || strings.Contains(gone.body, "/reveal") {
		t.Error("a deleted destination can be changed")
	}
	b.get(t, path+"?moment=0").expect(t, 200, "As it was at")
	b.get(t, path+"/edit").expect(t, 404, "Not found")
	b.get(t, path+"?at=yesterday").expect(t, 400, "At must be an ISO 8601 time")
}
