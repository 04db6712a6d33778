package console_test

import (
	"html"
	"io/fs"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

var seen = regexp.MustCompile(`name="seen" value="([^"]+)"`)

// seenBy returns the state for which a form was opened.
func (p page) seenBy(t *testing.T) string {
	t.Helper()
	found := seen.FindStringSubmatch(p.body)
	if found == nil {
		t.Fatalf("the form does not say what it was opened for:\n%s", p.shown(""))
	}
	return found[1]
}

// TestForm_otherOrganization: a form that was opened before signing in for another organization changes nothing
// there, unless it is sent again as confirmation.
func TestForm_otherOrganization(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	opened := b.get(t, "/console/destinations/new").seenBy(t)
	feedOpened := b.get(t, "/console/feeds/new").seenBy(t)
	other, otherKey := w.Organization(t, "Library")
	b.post(t, "/console/sign-in", "key", otherKey).leadsTo(t, "/console/") // in another tab: the cookie is the browser's
	address := receiver(t, 204, "")
	p := b.post(t, "/console/destinations/new", "seen", opened, "name", "Hook", "url", address, "debounce", "0").
		expect(t, 409, "opened for another organization, and you have signed in as Library since", `value="Hook"`)
	again := b.post(t, "/console/feeds/new", "seen", feedOpened, "name", "Concerts", "description", "In town", "enabled",
		"yes").expect(t, 409, "another organization")
	for _, organization := range []struct{ id, name string }{{w.org.String(), "Town hall"}, {other.String(), "Library"}} {
		found, _, err := w.Queries.FindDestinations(t.Context(), mustID(t, organization.id),
			query.DestinationFilter{Limit: 10})
		assert.True(t, err == nil && len(found) == 0, "%s has %+v, %v", organization.name, found, err)
	}
	made := b.post(t, "/console/destinations/new", "seen", p.seenBy(t), "name", "Hook", "url", address, "debounce", "0")
	assert.True(t, made.status == 303 && strings.Contains(made.location, "done=created"),
		"sent again: %d to %s", made.status, made.location)
	if made := b.post(t, "/console/feeds/new", "seen", again.seenBy(t), "name", "Concerts", "description",
		"In town"); made.status != 303 {
		t.Errorf("sent again: %d\n%s", made.status, made.shown(""))
	}
}

// TestForm_outdated: a form that was open during another change does not overwrite it: the page shows the change and
// its actor, and keeps the typed values.
func TestForm_outdated(t *testing.T) {
	s := newScene(t)
	b := s.signIn(t, s.key)
	path := "/console/destinations/" + s.names["works"]
	found := must.Get(s.Queries.Destination(t.Context(), s.org, s.names["works"], time.Now()))(t)
	opened := b.get(t, path+"/edit").seenBy(t)
	b.post(t, path+"/edit", "seen", opened, "name", "Renamed", "url", found.URL, "headers", "X-Tenant: theirs", "debounce",
		"0", "externalId", "shop").
		leadsTo(t, path+"?done=saved")
	p := b.post(t, path+"/edit", "seen", opened, "name", "Ticket shop", "url", found.URL, "debounce", "5").
		expect(t, 409, "changed since you opened the form", `value="Ticket shop"`, "It is now: <bdi>Renamed</bdi>",
			"It is now: <bdi>X-Tenant: theirs</bdi>", "by key:")
	if strings.Contains(p.body, "url-now") {
		t.Errorf("what both tabs have is shown as a change:\n%s", p.shown(""))
	}
	b.get(t, path).expect(t, 200, "Renamed")
	// Other changes than settings don't affect the form, and sending it again confirms it.
	b.post(t, path+"/rotate").expect(t, 200, "There is a new secret.")
	b.post(t, path+"/edit", "seen", p.seenBy(t), "name", "Mine", "url", found.URL, "debounce", "5", "externalId",
		"mine").leadsTo(t, path+"?done=saved")
	b.get(t, path).expect(t, 200, "Mine")
	for _, never := range []string{"99999x", "-7"} {
		b.post(t, path+"/edit", "seen", never, "name", "Theirs", "url", found.URL, "debounce", "5").expect(t, 409,
			"It is now: <bdi>Mine</bdi>")
	}
	missing := "/console/destinations/" + uuid.NewString()
	b.post(t, missing+"/edit", "seen", "1", "name", "Mine", "url", found.URL, "debounce", "5").expect(t, 404, "Not found")

	feed := "/console/feeds/" + s.names["feed"]
	opened = b.get(t, feed+"/edit").seenBy(t)
	b.post(t, feed+"/edit", "seen", opened, "name", "Concerts in town", "description", "All of them", "enabled",
		"yes").leadsTo(t, feed+"?done=saved")
	p = b.post(t, feed+"/edit", "seen", opened, "name", "Concerts", "description", "None").
		expect(t, 409, "changed since you opened the form", `value="Concerts"`, "It is now: <bdi>Concerts in town</bdi>",
			"It is now: <bdi>All of them</bdi>", "It is now: <bdi>on</bdi>")
	b.post(t, feed+"/edit", "seen", p.seenBy(t), "name", "Concerts", "description", "None", "enabled", "yes").leadsTo(t,
		feed+"?done=saved")
	b.post(t, feed+"/edit", "seen", "yesterday", "name", "Concerts", "description", "None").expect(t, 400, "open it again")
}

// TestPages_plain: pages consist of templates without inline scripts or styles, one style sheet, and little
// JavaScript, all from the console itself.
func TestPages_plain(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(
		`(?i)<script(?:>|[^>]*[^>]>[^<])|<style|\sstyle=|\son[a-z]+=|javascript:|(?:src|href|action)="https?:`)
	must.OK(t, fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch {
		case strings.HasPrefix(name, "templates/"):
			assert.Equal(t, inline.FindString(read(t, name)), "", "%s", name)
		case strings.HasSuffix(name, ".css"):
			text := read(t, name)
			assert.True(t, !strings.Contains(text, "url(") && !strings.Contains(text, "@import"), "%s loads something", name)
		case strings.HasPrefix(name, "static/") && strings.HasSuffix(name, ".js"):
			lines := strings.Count(read(t, name), "\n")
			assert.True(t, lines <= 300, "%s has %d lines", name, lines)
		}
		return nil
	}))
}

func read(t *testing.T, name string) string {
	t.Helper()
	text := must.Get(os.ReadFile(name))(t)
	return string(text)
}

var (
	wrongAt = regexp.MustCompile(`<p class="wrong" id="(\w+)-wrong">([^<]*)</p>`)
	// Words of the API, which forms don't have.
	ofTheAPI = regexp.MustCompile(`config\.|debounceWindowSeconds|maxRequestsPerSecond|externalId|eventTypes|scopeKind|` +
		`sourceType|sourceId|\bnull\b|\bPUT\b|\bPATCH\b|\bGET\b|\bPOST\b`)
)

// wrong returns the messages at the fields of a form, by input. Each is also a link above the form.
func (p page) wrong(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, found := range wrongAt.FindAllStringSubmatch(p.body, -1) {
		input, message := found[1], found[2]
		all[input] = html.UnescapeString(message)
		assert.True(t, !ofTheAPI.MatchString(message), "%s is in words of the API: %s", input, message)
		for _, part := range []string{`<li><a href="#` + input + `">` + message, `id="` + input + `"`, input + `-wrong"`} {
			if !strings.Contains(p.body, part) {
				t.Errorf("%s: the page has no %s:\n%s", input, part, p.shown(""))
			}
		}
	}
	return all
}

// TestForm_allErrors: a refused form has all errors at its fields, in words of the form, and the values typed.
func TestForm_allErrors(t *testing.T) {
	s := newScene(t)
	s.admin = s.operatorsConsole(t, adminToken)
	b, operator := s.signIn(t, s.key), s.operator(t)
	destination := url.Values{
		"name": {" "}, "url": {"http://example.org/"}, "headers": {"Host: x"}, "debounce": {"soon"}, "limit": {"1e9"},
		"externalId": {"a b"}, "scope": {"feeds"}, "types": {"no.such"}, "traceparent": {"yes"},
	}
	ofDestination := map[string]string{
		"name": "Name must not be empty.", "url": "Address must use https.", "headers": `Custom headers: "Host" is reserved.`,
		"debounce":   "Debounce window must be a number of seconds, 0 for none.",
		"limit":      "Requests per second must be empty, for no limit, or a number from 0.1 to 10000.",
		"externalId": "External id must be 1 to 255 characters from A-Z a-z 0-9 . _ : -.",
	}
	withEvents := map[string]string{
		"types": "Events include a type that is not known: untick it.",
		"feeds": "Feeds must be chosen: tick one to 1000, or choose events of all feeds.",
	}
	for input, message := range ofDestination {
		withEvents[input] = message
	}
	subscription := url.Values{"scope": {"feeds"}, "externalId": {"a b"}, "seen": {"1"}}
	ofSubscription := map[string]string{
		"types": "Events must be chosen: tick one to 100.", "feeds": withEvents["feeds"],
		"externalId": withEvents["externalId"],
	}
	feed := url.Values{"name": {""}, "description": {"  "}}
	ofFeed := map[string]string{"name": "Name must not be empty.", "description": "Description must not be empty."}
	source := url.Values{"where": {"ftp://example.org/"}, "type": {"site"}, "timezone": {"Moon"}}
	zone := "Default time zone must be an IANA name such as Europe/Rome."
	ofSource := map[string]string{
		"where":    "Address must be absolute and begin with https://, http://, webcal:// or webcals://.",
		"timezone": zone,
	}
	for _, form := range []struct {
		by    *browser
		path  string
		typed url.Values
		want  map[string]string
	}{
		{b, "/console/destinations/new", destination, withEvents},
		{b, "/console/destinations/{works}/edit", destination, ofDestination},
		{b, "/console/destinations/{works}/subscriptions/new", subscription, ofSubscription},
		{b, "/console/destinations/{works}/subscriptions/{subscription}/edit", subscription, ofSubscription},
		{b, "/console/feeds/new", feed, ofFeed},
		{b, "/console/feeds/{feed}/edit", feed, ofFeed},
		{b, "/console/feeds/{feed}/sources/new", source, ofSource},
		{b, "/console/feeds/{feed}/sources/try", source, ofSource},
		{operator, "/console/sources/new", source, ofSource},
		{operator, "/console/sources/try", source, ofSource},
	} {
		p := form.by.submit(t, s.at(t, form.path), form.typed).expect(t, 400, "aria-describedby=")
		got := p.wrong(t)
		for input, want := range form.want {
			assert.Equal(t, got[input], want, "%s, %s", form.path, input)
		}
		assert.Equal(t, len(got), len(form.want), "%s has %v", form.path, got)
		for input, values := range form.typed {
			if (form.want[input] != "" || input == "externalId") && !strings.Contains(html.UnescapeString(p.body), values[0]) {
				t.Errorf("%s lost %s: %q", form.path, input, values[0])
			}
		}
	}
}

// TestForm_nameTaken: an external id that another destination has is refused at its field.
func TestForm_nameTaken(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	typed := url.Values{"name": {"Hook"}, "url": {receiver(t, 204, "")}, "debounce": {"0"}, "externalId": {"hook"}}
	if made := b.submit(t, "/console/destinations/new", typed); made.status != 303 {
		t.Fatalf("%d\n%s", made.status, made.shown(""))
	}
	p := b.submit(t, "/console/destinations/new", typed).expect(t, 409, `value="hook"`)
	assert.Equal(t, p.wrong(t)["externalId"], "External id is taken: another one has it.", "the field")
}
