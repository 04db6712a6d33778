//go:build nightly

package console_test

import (
	"testing"

	"github.com/google/uuid"
)

// tick ticks the field of a form with a value.
func (b *tab) tick(t *testing.T, value string) {
	t.Helper()
	ask[bool](t, b, `document.querySelector('input[value="`+value+`"]').click(); true`)
}

// TestSetUpInBrowser: a destination is set up in the console alone: with its events, its secret to copy, and a test.
func TestSetUpInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	feed := w.namedFeed(t, "Concerts")
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.sized(t, 1280)
	b.open(t, "/console/destinations/new")
	b.fill(t, "name", "Ticket shop")
	b.fill(t, "url", receiver(t, 204, ""))
	b.tick(t, "event.*")
	ask[bool](t, b, `document.querySelector("[name=scope]").value = "feeds"; true`)
	b.tick(t, "event/"+feed.String())
	b.leave(t, "Create")
	b.shows(t, "created", "The destination was created.", "First steps of Ticket shop")
	b.accessible(t, "first steps")
	b.pressButton(t, "Copy")
	b.until(t, "the secret is copied", `document.querySelector("[data-copy]").classList.contains("done")`)
	b.leave(t, "Send a test")
	b.shows(t, "tested", "It took the event: 204")
	b.leave(t, "Back to")
	b.shows(t, "the destination", "event.*", "Concerts")
	path := ask[string](t, b, "location.pathname")
	found := w.only(t, uuid.MustParse(path[len(path)-36:]))
	if !found.Active || len(found.Feeds) != 1 || found.Feeds[0].FeedID != feed {
		t.Errorf("it is %+v", found)
	}
	b.quiet(t, "set up")
}
