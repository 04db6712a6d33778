package console_test

import (
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

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
	t.Parallel()
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
		if err != nil || len(found) != 0 {
			t.Errorf("%s has %+v, %v", organization.name, found, err)
		}
	}
	made := b.post(t, "/console/destinations/new", "seen", p.seenBy(t), "name", "Hook", "url", address, "debounce", "0")
	if made.status != 303 || !strings.Contains(made.location, "done=created") {
		t.Errorf("sent again: %d to %s", made.status, made.location)
	}
	if made := b.post(t, "/console/feeds/new", "seen", again.seenBy(t), "name", "Concerts", "description",
		"In town"); made.status != 303 {
		t.Errorf("sent again: %d\n%s", made.status, made.shown(""))
	}
}

// TestForm_outdated: a form that was open during another change does not overwrite it: the page shows the change and
// its actor, and keeps the typed values.
func TestForm_outdated(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.signIn(t, s.key)
	path := "/console/destinations/" + s.names["works"]
	found, err := s.Queries.Destination(t.Context(), s.org, s.names["works"], time.Now())
	if err != nil {
		t.Fatal(err)
	}
	opened := b.get(t, path+"/edit").seenBy(t)
	b.post(t, path+"/edit", "seen", opened, "name", "Renamed", "url", found.URL, "headers", "X-Tenant: theirs", "debounce",
		"0", "externalId", "shop").
		leadsTo(t, path+"?done=saved")
	p := b.post(t, path+"/edit", "seen", opened, "name", "Ticket shop", "url", found.URL, "debounce", "5").
		expect(t, 409, "changed since you opened the form", `value="Ticket shop"`, "It is now: <bdi>Renamed</bdi>",
			"It is now: <bdi>X-Tenant: theirs</bdi>",
			"It is now: <bdi>0</bdi>", "It is now: <bdi>shop</bdi>", "by key:")
	if strings.Contains(p.body, "url-now") {
		t.Errorf("what both tabs have is told as a change:\n%s", p.shown(""))
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

// TestForm_concurrent: of several tabs that send a form at the same instant, one saves; the others show the change.
// The read model behind the forms may be late; the event store decides.
func TestForm_concurrent(t *testing.T) {
	t.Parallel()
	s := newScene(t)
	b := s.signIn(t, s.key)
	address := receiver(t, 204, "")
	for path, form := range map[string][]string{
		"/console/destinations/" + s.names["works"]: {"url", address, "debounce", "0"},
		"/console/destinations/" + s.names["fails"]: {"url", address, "debounce", "0", "externalId", "one-of-them"},
		"/console/feeds/" + s.names["feed"]:         {"description", "In town", "enabled", "yes"},
	} {
		for round := range 3 {
			opened := b.get(t, path+"/edit").seenBy(t)
			var saved, told atomic.Int32
			var tabs sync.WaitGroup
			for tab := range 6 {
				tabs.Go(func() {
					name := fmt.Sprintf("Tab %d of round %d", tab, round)
					switch p := b.post(t, path+"/edit", append([]string{"seen", opened, "name", name}, form...)...); p.status {
					case http.StatusSeeOther:
						saved.Add(1)
					case http.StatusConflict:
						told.Add(1)
						p.expect(t, 409, "changed since you opened the form", name, "It is now: <bdi>Tab ")
					default:
						p.expect(t, 303)
					}
				})
			}
			tabs.Wait()
			if saved.Load() != 1 || told.Load() != 5 {
				t.Errorf("%s: %d saved and %d were told", path, saved.Load(), told.Load())
			}
		}
	}
}

// TestPages_plain: pages consist of templates without inline scripts or styles, one style sheet, and little
// JavaScript, all from the console itself.
func TestPages_plain(t *testing.T) {
	t.Parallel()
	inline := regexp.MustCompile(
		`(?i)<script(?:>|[^>]*[^>]>[^<])|<style|\sstyle=|\son[a-z]+=|javascript:|(?:src|href|action)="https?:`)
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch {
		case strings.HasPrefix(name, "templates/"):
			if found := inline.FindString(read(t, name)); found != "" {
				t.Errorf("%s has %q", name, found)
			}
		case strings.HasSuffix(name, ".css"):
			if text := read(t, name); strings.Contains(text, "url(") || strings.Contains(text, "@import") {
				t.Errorf("%s loads something", name)
			}
		case strings.HasPrefix(name, "static/") && strings.HasSuffix(name, ".js"):
			if lines := strings.Count(read(t, name), "\n"); lines > 300 {
				t.Errorf("%s has %d lines", name, lines)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
