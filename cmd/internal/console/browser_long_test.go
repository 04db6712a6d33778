//go:build nightly

package console_test

import (
	"strings"
	"testing"

	"carillon/aggregates/dispatch"
	"carillon/projections/audit"
	"carillon/projections/destinations"
)

// TestLongNamesInBrowser: names of maximum length, without a place to break or written from right to left, push
// nothing off a page of any width.
func TestLongNamesInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	id := w.subscribed(t, "Plain", receiver(t, 500, strings.Repeat("W", 9000)))
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	for what, name := range map[string]string{"one word": strings.Repeat("W", 255),
		"from the right": strings.Repeat("\u0645\u0631\u062d\u0628\u0627 ", 40), "quotes": strings.Repeat(`"<`, 127)} {
		out, err := w.Commands.ReviseDestination(t.Context(), w.by(w.org), renamed(id, name))
		if err != nil {
			t.Fatal(err)
		}
		w.Await(t, out.Position, destinations.ReadModel.Name, audit.ReadModel.Name)
		event := w.publish(t, strings.Repeat("S", 200))
		w.attempted(t, event, id, 500, strings.Repeat("W", 9000))
		at := "/console/destinations/" + id.String()
		for _, path := range []string{
			"/console/", "/console/destinations", at, at + "/edit", at + "/delete", at + "/deliveries",
			at + "/replay?status=failed", "/console/deliveries",
			"/console/deliveries/" + dispatch.DeliveryID(event, id).String(), "/console/events", "/console/events/" +
				event.String(),
		} {
			b.sized(t, 1200)
			b.open(t, path)
			b.fits(t, what+" "+path, 1200)
			b.fits(t, what+" "+path, 360)
		}
	}
}
