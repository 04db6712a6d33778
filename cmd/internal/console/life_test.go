package console_test

import (
	"cmp"
	"html"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/console"
	"carillon/command/catalog"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// TestDestinationLifecycle: actions at the console work as at the API, and the next page shows them.
func TestDestinationLifecycle(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	address := receiver(t, 204, "")
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
	noticed := b.post(t, "/console/destinations/new", "name", "Notices", "url", address, "debounce", "0", "externalId",
		destination.NoticesExternalID)
	of, _, _ := strings.Cut(noticed.location, "/start?")
	b.get(t, "/console/destinations").expect(t, 200, `sent to <a href="`+of).lacks(t, "new?notices")
	for page, subscribe := range map[string]string{noticed.location: "Choose its events", of: "nothing is sent"} {
		b.get(t, page).expect(t, 200, noticesForm[1:]...).lacks(t, subscribe)
	}
	for _, limit := range []string{"-1", "NaN"} {
		b.post(t, "/console/destinations/new", "name", "Hook", "url", address, "debounce", "0", "limit", limit).
			expect(t, 400, "Requests per second must be", `value="`+limit+`"`)
	}
	made := b.post(t, "/console/destinations/new", "name", "Hook", "url", address, "debounce", "0")
	path, _, _ := strings.Cut(made.location, "/start?")
	b.get(t, made.location).expect(t, 200, "The destination was created.", "Hook", "nothing is sent", "Send a test")
	b.get(t, path).expect(t, 200, "Hook", address, "made the secret")
	b.post(t, path+"/edit", "name", "Hook two", "url", address, "debounce", "0").leadsTo(t, path+"?done=saved")

	b.get(t, path+"/rotate").expect(t, 200, "also sign for another 24 hours")
	b.post(t, path+"/rotate", "why", "line\nbreak").expect(t, 400, "Reason must be plain text")
	rotated := b.post(t, path+"/rotate", "why", "leaked in chat").expect(t, 200, "There is a new secret.", "data-copy")
	assert.True(t, w.lastDisclosure(t, mustID(t, strings.TrimPrefix(path, "/console/destinations/"))) != eventstore.Start,
		"that the new secret was shown is not recorded")
	b.get(t, path).expect(t, 200, "reason: leaked in chat")
	shown := b.get(t, path).expect(t, 200, "beside its successor", "Expire now")
	secret := regexp.MustCompile(path + `/secrets/[0-9a-f-]+/reveal`).FindString(shown.body)
	assert.Equal(t, strings.Count(shown.body, "whsec_…"), 2, "there are not two masked secrets")
	b.get(t, secret).expect(t, 200, "shown in full on the next page")
	revealed := b.post(t, secret).expect(t, 200, "whsec_")
	full := regexp.MustCompile(`whsec_[A-Za-z0-9+/=]{40,}`).FindString(html.UnescapeString(revealed.body))
	assert.True(t, strings.Contains(html.UnescapeString(rotated.body), full),
		"the answer to the rotation does not have the new secret")
	if full == "" || strings.Contains(w.Logged.String(), full) || !strings.Contains(w.Logged.String(), "revealed=") {
		t.Error("the secret is not shown, or the log has it, or does not have that it was asked for")
	}
	b.post(t, strings.TrimSuffix(secret, "reveal")+"expire").expect(t, 409, "last secret without an end")
	overlapping := regexp.MustCompile(path+`/secrets/[0-9a-f-]+/expire`).FindAllString(shown.body, -1)
	must.Equal(t, len(overlapping), 1, "secrets can be expired, want the one in its overlap")
	b.post(t, overlapping[0]).leadsTo(t, path+"?done=expired")

	b.post(t, path+"/test").expect(t, 200, "It took the event: 204")
	b.post(t, path+"/validate").expect(t, 200, "It answered 204")
	b.post(t, path+"/disable").leadsTo(t, path+"?done=disabled")
	b.get(t, path).expect(t, 200, "disabled", "Enable")
	b.post(t, path+"/enable").leadsTo(t, path+"?done=enabled")
	b.get(t, path+"/delete").expect(t, 200, "shredded", "can't be undone")
	b.post(t, path+"/delete").leadsTo(t, "/console/destinations?done=deleted")
	b.get(t, path).expect(t, 200, "deleted", "History", "Hook two").lacks(t, "/rotate", "/reveal")
	b.get(t, path+"?moment=0").expect(t, 200, "As it was at")
	b.get(t, path+"/edit").expect(t, 404, "Not found")
	b.get(t, path+"?at=yesterday").expect(t, 400, "At must be a date and time")
}

// TestTheme: a theme sets a name, a logo and colors, also before the sign-in.
func TestTheme(t *testing.T) {
	w := open(t)
	deps, api := w.dependencies(t)
	deps.Theme = console.Theme{
		Name:     "Bells & <b>more</b>",
		Logo:     []byte("<svg/>"),
		LogoType: "image/svg+xml",
		Light:    "#0b57a4",
		Dark:     "#8bbdf5",
	}
	c := must.Get(console.New(deps))(t)
	b := &browser{world: w, at: c.Beside(api)}
	b.get(t, "/console/sign-in").expect(t, 200, "Bells & <b>more</b>", "/console/theme.css", "Carillon v1.2.3").
		lacks(t, "<b>more")
	b.get(t, "/console/theme.css").expect(t, 200, "--brand: #0b57a4", "light-dark(#0b57a4, #8bbdf5)")
	if logo := b.get(t, "/console/logo").expect(t, 200, "<svg/>"); logo.header.Get("Content-Type") != "image/svg+xml" ||
		!strings.Contains(logo.header.Get("Content-Security-Policy"), "default-src 'none'") {
		t.Errorf("headers of the logo: %v", logo.header)
	}
	plain := &browser{world: w}
	plain.get(t, "/console/logo").expect(t, 404, "Not found")
	plain.get(t, "/console/sign-in").expect(t, 200, "– Carillon").lacks(t, "theme.css")
}

// TestSearch: one field finds what an id, a subject, an external id or a part of a name means, and leads straight to
// the page of the only result. Other organizations find nothing.
func TestSearch(t *testing.T) {
	s := newScene(t)
	b := s.signIn(t, s.key)
	_, otherKey := s.Organization(t, "Library")
	other := s.signIn(t, otherKey)
	operator := s.operator(t)
	find := func(text string) string { return "/console/search?q=" + url.QueryEscape(text) }
	works := "/destinations/" + s.names["works"]
	for text, path := range map[string]string{
		s.names["delivered"]:              "/deliveries/" + s.names["delivered"],
		s.names["event"]:                  "/events/" + s.names["event"],
		s.names["works"]:                  works,
		strings.ToUpper(s.names["works"]): works,
		s.names["subscription"]:           works + "#subscriptions",
		s.names["feed"]:                   "/feeds/" + s.names["feed"],
		s.names["item"]:                   "/feeds/" + s.names["feed"] + "/items/" + s.names["item"],
		" ticket ":                        works, //nolint:gocritic // the spaces are the point
		"concert/2":                       "/events/" + s.names["event"],
		"CONCERTS":                        "/feeds/" + s.names["feed"],
	} {
		b.get(t, find(text)).leadsTo(t, "/console"+path)
		inside := "/console/organizations/" + s.org.String()
		operator.get(t, strings.Replace(find(text), "/console", inside, 1)).leadsTo(t, inside+path)
		other.get(t, find(text)).expect(t, 200, "Nothing is called").lacks(t, "Ticket shop")
	}
	b.get(t, find("e")).expect(t, 200, "Ticket shop", "Old newsletter", "Concerts", "destination, enabled, created",
		"feed", `value="e"`)
	b.get(t, find("noon ORGAN")).leadsTo(t, "/console/feeds/"+s.names["feed"]+"/items/"+s.names["item"])
	b.get(t, find("n a")).expect(t, 200, "item, of Concerts, on", "Brass in the park")
	b.get(t, find("")).expect(t, 200, "Search for an id")
	for _, text := range []string{uuid.NewString(), "100%", "_", `\`, "'; --", `<img src=x>`, strings.Repeat("x", 1000)} {
		b.get(t, find(text)).expect(t, 200, "Nothing is called").lacks(t, "<img src=x")
	}
	b.get(t, find("a\x00b")).expect(t, 400)
	for _, page := range []string{"/console/", "/console/deliveries", "/console" + works, "/console/missing"} {
		p := b.get(t, page)
		p.expect(t, p.status, `action="/console/search"`)
	}
	b.submit(t, "/console"+works+"/subscriptions/new", url.Values{
		"types": {"*"}, "scope": {"all"}, "externalId": {"named-sub"},
	})
	b.get(t, find("named-sub")).leadsTo(t, "/console"+works+"#subscriptions")
	other.get(t, find("named-sub")).expect(t, 200, "Nothing is called")
}

// Each declared setting is set by the form of a new destination, prefilled, cleared by an edit and named by an outdated
// one, and shown on the page as it is, as it was at an instant, and as a change.
func TestFormHasEachSetting(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	for _, d := range destination.Fields {
		given := map[string]string{"numeric": "7", "decimal": "2.5", "checkbox": "on", "": "of-" + d.Label}[d.Input]
		bare := url.Values{"name": {"Hook"}, "url": {receiver(t, 204, "")}, "debounce": {"0"}}
		shown := "X-Tenant"
		if d.Field == destination.FieldURL {
			given = receiver(t, 204, "")
		}
		if d.Field == destination.FieldHeaders {
			given = "X-Tenant: hall"
		}
		if d.Read != nil {
			var settings destination.Settings
			d.Read(&settings, given)
			shown = d.Text(settings)
		}
		shows := func(what string, p page, want bool) {
			t.Helper()
			_, facts, _ := strings.Cut(p.body, `<dl class="facts">`)
			facts, _, _ = strings.Cut(facts, "</dl>")
			if strings.Contains(facts, ">"+shown) != want {
				t.Errorf("%s, %s: shown is %t\n%s", d.Label, what, !want, p.shown(shown))
			}
		}
		whole := maps.Clone(bare)
		whole.Set(d.Label, given)

		made := b.submit(t, "/console/destinations/new", whole)
		path, _, _ := strings.Cut(made.location, "/start?")
		created := time.Now().UTC().Format(time.RFC3339Nano)
		shows("created", b.get(t, path), true)
		form := b.get(t, path+"/edit")
		prefilled := regexp.MustCompile(`name="` + d.Label + `"[^>]*(value="` + regexp.QuoteMeta(given) + `"|>` +
			regexp.QuoteMeta(given) + `<)[^>]*`).FindString(form.body)
		if prefilled == "" || d.Input == "checkbox" && !strings.Contains(prefilled, " checked") {
			t.Errorf("%s is not prefilled: %q\n%s", d.Label, prefilled, form.shown(given))
		}
		whole.Set("seen", form.seenBy(t))
		b.submit(t, path+"/edit", whole).leadsTo(t, path+"?done=saved")
		if d.Field == destination.FieldExternalID { // it can't be cleared
			bare.Set(d.Label, "another")
		}
		b.submit(t, path+"/edit", bare).leadsTo(t, path+"?done=saved")
		cleared := b.get(t, path).expect(t, 200, d.Label+": ")
		shows("cleared", cleared, false)
		shows("at an instant", b.get(t, path+"?at="+created), true)
		kept := cmp.Or(map[string]string{"checkbox": " checked"}[d.Input], given)
		outdated := b.submit(t, path+"/edit", whole).expect(t, 409, kept)
		changes := regexp.MustCompile(`id="(\w+)-now"`).FindAllStringSubmatch(outdated.body, -1)
		assert.True(t, len(changes) == 1 && slices.Contains(changes[0], d.Label),
			"%s has changed, and the outdated form names %v", d.Label, changes)
	}
}
