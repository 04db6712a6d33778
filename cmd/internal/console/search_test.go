package console_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// TestSearch: one field finds what an id, a subject, an external id or a part of a name means, and leads straight to
// the page of the only result. Other organizations find nothing.
func TestSearch(t *testing.T) {
	t.Parallel()
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
		if p := other.get(t, find(text)).expect(t, 200, "Nothing is called"); strings.Contains(p.body, "Ticket shop") {
			t.Errorf("%q shows another organization's:\n%s", text, p.shown(""))
		}
	}
	b.get(t, find("e")).expect(t, 200, "Ticket shop", "Old newsletter", "Concerts", "destination", "feed")
	b.get(t, find("")).expect(t, 200, "Search for an id")
	for _, text := range []string{uuid.NewString(), "100%", "_", `\`, "'; --", `<img src=x>`, strings.Repeat("x", 1000)} {
		if p := b.get(t, find(text)).expect(t, 200, "Nothing is called"); strings.Contains(p.body, "<img src=x") {
			t.Errorf("%q is no text", text)
		}
	}
	b.get(t, find("a\x00b")).expect(t, 400)
	for _, page := range []string{"/console/", "/console/deliveries", "/console" + works, "/console/missing"} {
		if p := b.get(t, page); !strings.Contains(p.body, `action="/console/search"`) {
			t.Errorf("%s has no search", page)
		}
	}
	b.submit(t, "/console"+works+"/subscriptions/new", url.Values{
		"types": {"*"}, "scope": {"all"}, "externalId": {"named-sub"},
	})
	b.get(t, find("named-sub")).leadsTo(t, "/console"+works+"#subscriptions")
	other.get(t, find("named-sub")).expect(t, 200, "Nothing is called")
}
