//go:build nightly

package console_test

import (
	"testing"
	"time"
)

// TestOutdatedFormsInBrowser: a form that was open during another change is shown again, with the typed and the
// current values, all of it accessible.
func TestOutdatedFormsInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	s := newScene(t)
	other := s.signIn(t, s.key)
	b := newTab(t, s.serve(t), other.cookie)
	works, err := s.Queries.Destination(t.Context(), s.org, s.names["works"], time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []struct {
		name, path string
		theirs     []string
		now        []string // current values on the page
	}{
		{
			"old-destination-form", "/console/destinations/{works}/edit",
			[]string{"name", "Tickets and more", "url", works.URL, "headers", "X-Tenant: town-hall\nX-Room: 7", "debounce",
				"60"},
			[]string{"It is now: Tickets and more", "X-Room: 7", "It is now: 60", "by key:"},
		},
		{
			"old-feed-form", "/console/feeds/{feed}/edit", []string{"name", "Concerts and plays", "description",
				"What is on in town, in the evening"},
			[]string{"It is now: Concerts and plays", "It is now: What is on in town, in the evening", "It is now: off"},
		},
	} {
		path := s.at(t, form.path)
		b.sized(t, 1280)
		b.dark(t, false)
		b.open(t, path)
		b.fill(t, "name", "Mine")
		seen := other.get(t, path).seenBy(t)
		if p := other.post(t, path, append([]string{"seen", seen}, form.theirs...)...); p.status != 303 {
			t.Fatalf("%s: %d\n%s", form.name, p.status, p.shown(""))
		}
		b.pressButton(t, "Save")
		b.until(t, form.name+": it is told", `document.body.innerText.includes("changed since you opened the form")`)
		b.shows(t, form.name, form.now...)
		if typed := ask[string](t, b, `document.querySelector("#name").value`); typed != "Mine" {
			t.Errorf("%s: what was typed has become %q", form.name, typed)
		}
		b.accessible(t, form.name)
		b.byKeys(t, form.name)
		b.pictures(t, form.name)
		b.fits(t, form.name+", small", 360)
		b.dark(t, true)
		b.accessible(t, form.name+" in the dark")
		b.sized(t, 1280)
		b.pressButton(t, "Save")
		b.until(t, form.name+": sent again, it is saved",
			`document.body.innerText.includes("The changes were saved.") && document.body.innerText.includes("Mine")`)
	}
}

// TestRefusedFormsInBrowser: a refused form has all errors at its fields at once, and links to them.
func TestRefusedFormsInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	s := newScene(t)
	b := newTab(t, s.serve(t), s.signIn(t, s.key).cookie)
	for _, form := range []struct {
		name, path, button string
		typed              map[string]string
		wrong              []string
	}{
		{
			"refused-destination", "/console/destinations/new", "Create",
			map[string]string{"url": "http://example.org/hook", "debounce": "soon", "limit": "1e9", "externalId": "my shop"},
			[]string{"Name must not be empty.", "Address must use https.", "Debounce window must be", "Requests per second must be"},
		},
		{
			"refused-subscription", "/console/destinations/{works}/subscriptions/new", "Add",
			map[string]string{"externalId": "my shop"},
			[]string{"Events must be chosen", "External id must be"},
		},
		{
			"refused-feed", "/console/feeds/new", "Create", nil,
			[]string{"Name must not be empty.", "Description must not be empty."},
		},
		{
			"refused-source", "/console/feeds/{feed}/sources/new", "Look at it",
			map[string]string{"where": "example.org", "timezone": "Moon"},
			[]string{"Address must be absolute", "Default time zone must be an IANA name"},
		},
	} {
		b.sized(t, 1280)
		b.dark(t, false)
		b.open(t, s.at(t, form.path))
		for input, value := range form.typed {
			b.fill(t, input, value)
		}
		b.leave(t, form.button)
		b.shows(t, form.name, form.wrong...)
		for input, value := range form.typed {
			if typed := ask[string](t, b, `document.getElementById("`+input+`").value`); typed != value {
				t.Errorf("%s: %s has become %q", form.name, input, typed)
			}
		}
		if at := ask[int](t, b, `document.querySelectorAll(".wrong").length`); at < len(form.wrong) {
			t.Errorf("%s: %d messages at fields", form.name, at)
		}
		if lost := ask[string](t, b, `[...document.querySelectorAll("#refusal a")].map((a) => a.hash).
			filter((hash) => !document.querySelector(hash)).join(" ")`); lost != "" {
			t.Errorf("%s: links to %s", form.name, lost)
		}
		b.accessible(t, form.name)
		b.byKeys(t, form.name)
		b.pictures(t, form.name)
		b.fits(t, form.name+", small", 360)
		b.dark(t, true)
		b.accessible(t, form.name+" in the dark")
	}
}
