package console_test

import (
	"html"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

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
		if ofTheAPI.MatchString(message) {
			t.Errorf("%s is in words of the API: %s", input, message)
		}
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
	t.Parallel()
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
			if got[input] != want {
				t.Errorf("%s, %s: %q, want %q", form.path, input, got[input], want)
			}
		}
		if len(got) != len(form.want) {
			t.Errorf("%s has %v", form.path, got)
		}
		for input, values := range form.typed {
			if (form.want[input] != "" || input == "externalId") && !strings.Contains(html.UnescapeString(p.body), values[0]) {
				t.Errorf("%s lost %s: %q", form.path, input, values[0])
			}
		}
	}
}

// TestForm_nameTaken: an external id that another destination has is refused at its field.
func TestForm_nameTaken(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := w.signIn(t, w.key)
	typed := url.Values{"name": {"Hook"}, "url": {receiver(t, 204, "")}, "debounce": {"0"}, "externalId": {"hook"}}
	if made := b.submit(t, "/console/destinations/new", typed); made.status != 303 {
		t.Fatalf("%d\n%s", made.status, made.shown(""))
	}
	p := b.submit(t, "/console/destinations/new", typed).expect(t, 409, `value="hook"`)
	if got := p.wrong(t)["externalId"]; got != "External id is taken: another one has it." {
		t.Errorf("the field has %q", got)
	}
}
