package console_test

import (
	"testing"

	"github.com/chromedp/cdproto/input"

	"carillon/aggregates/dispatch"
	"carillon/cmd/internal/httpapi/apitest"
)

// pointAt moves the pointer to a place of the page.
func (b *tab) pointAt(t *testing.T, x, y float64) {
	t.Helper()
	call(t, b, input.DispatchMouseEvent, input.DispatchMouseEventParams{Type: input.DispatchMouseEventTypeMouseMoved, X: x, Y: y})
}

// New deliveries come on top without a load, and wait with their number while somebody reads.
func TestPagesFollowInABrowser(t *testing.T) {
	t.Parallel()
	if found, _ := chromium(); found == nil {
		newTab(t, "", "") // tells why not
	}
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.sized(t, 1280)
	b.pointAt(t, 5, 5)
	b.open(t, "/console/destinations/"+id.String()+"/deliveries")
	b.until(t, "the page is connected", `document.querySelector("[data-live]").hasAttribute("data-connected")`)

	// Until the source reads along nothing is told, so something happens until it is.
	apitest.Eventually(t, "a delivery comes by itself", func() bool {
		w.publish(t, "concert")
		return ask[int](t, b, `document.querySelectorAll("[data-id]").length`) > 0
	})
	event := w.publish(t, "the-last")
	row := `document.querySelector('[data-id="` + dispatch.DeliveryID(event, id).String() + `"]')`
	b.until(t, "it is on top", `document.querySelector("[data-rows]").firstElementChild === `+row)
	w.attempted(t, event, id, 204, "")
	b.until(t, "its status changes where it is", row+`.innerText.includes("succeeded") && document.querySelector("[data-rows]").firstElementChild === `+row)

	// The pointer is on the list: it stands still, and tells how many there are.
	at := ask[[]float64](t, b, `(() => { const r = document.querySelector("[data-live]").getBoundingClientRect(); return [r.x + 40, r.y + 20]; })()`)
	b.pointAt(t, at[0], at[1])
	b.until(t, "the pointer is there", `document.querySelector("[data-live]").matches(":hover")`)
	before := ask[int](t, b, `document.querySelectorAll("[data-id]").length`)
	w.publish(t, "while-reading")
	b.until(t, "the number is told", `!document.querySelector("[data-news]").hidden && document.querySelector("[data-news]").textContent === "1 new, show them"`)
	if now := ask[int](t, b, `document.querySelectorAll("[data-id]").length`); now != before {
		t.Errorf("%d rows became %d under the eyes of who reads", before, now)
	}
	b.accessible(t, "with news")
}
