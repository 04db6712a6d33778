package console_test

import (
	"net/http/httptest"
	"testing"

	"github.com/chromedp/cdproto/input"
	"github.com/google/uuid"

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

	// It goes on where it was when the pointer leaves, or when somebody asks for what is new.
	b.pointAt(t, 5, 5)
	b.until(t, "what was held back is shown", `document.querySelector("[data-news]").hidden && document.querySelector("[data-rows]").firstElementChild.innerText.includes("while-reading")`)
	if now := ask[int](t, b, `document.querySelectorAll("[data-id]").length`); now != before+1 {
		t.Errorf("%d rows became %d, and one was held back", before, now)
	}
	b.pointAt(t, at[0], at[1])
	b.until(t, "the pointer is there again", `document.querySelector("[data-live]").matches(":hover")`)
	held := w.publish(t, "asked-for")
	b.until(t, "it is held back", `!document.querySelector("[data-news]").hidden`)
	w.attempted(t, held, id, 204, "")
	b.pressButton(t, "1 new, show them")
	fresh := `document.querySelector('[data-id="` + dispatch.DeliveryID(held, id).String() + `"]')`
	b.until(t, "it is shown, and the focus is on it", fresh+` === document.querySelector("[data-rows]").firstElementChild && `+fresh+`.contains(document.activeElement)`)
	b.until(t, "with what happened to it while it was held back", fresh+`.innerText.includes("succeeded")`)
	b.quiet(t, "while it is followed")
}

// The list of deliveries to all destinations follows too, and says where each went.
func TestAllDeliveriesFollowInABrowser(t *testing.T) {
	t.Parallel()
	if found, _ := chromium(); found == nil {
		newTab(t, "", "") // tells why not
	}
	w := open(t)
	w.lives(t)
	shop, letter := w.subscribed(t, "Ticket shop", receiver(t, 204, "")), w.subscribed(t, "Old newsletter", receiver(t, 500, ""))
	server := httptest.NewServer(w.admin)
	t.Cleanup(server.CloseClientConnections) // live parts stay open
	t.Cleanup(server.Close)
	for name, b := range map[string]*tab{
		"/console": newTab(t, w.serve(t), w.signIn(t, w.key).cookie), "/console/organizations/" + w.org.String(): newTab(t, server.URL, w.operator(t).cookie),
	} {
		b.sized(t, 1280)
		b.pointAt(t, 5, 5)
		b.open(t, name+"/deliveries")
		b.until(t, "the page is connected", `document.querySelector("[data-live]").hasAttribute("data-connected")`)
		first := w.publish(t, "to-both")
		for _, to := range []uuid.UUID{shop, letter} {
			row := `document.querySelector('[data-id="` + dispatch.DeliveryID(first, to).String() + `"]')`
			if to == letter {
				b.until(t, "a row names its destination", row+`?.innerText.includes("Old newsletter")`)
			} else {
				b.until(t, "a row names its destination", row+`?.innerText.includes("Ticket shop")`)
			}
			if at := ask[string](t, b, row+`.querySelectorAll("a")[1].getAttribute("href")`); at != name+"/destinations/"+to.String() {
				t.Errorf("its destination is at %s", at)
			}
		}
		w.attempted(t, first, shop, 204, "")
		b.until(t, "what is there changes where it is", `document.querySelector('[data-id="`+dispatch.DeliveryID(first, shop).String()+`"]').innerText.includes("succeeded")`)
		b.accessible(t, name)
		b.quiet(t, name)
	}
}

// A delivery's page shows each attempt as it is made, without a load.
func TestADeliverysPageFollowsInABrowser(t *testing.T) {
	t.Parallel()
	if found, _ := chromium(); found == nil {
		newTab(t, "", "") // tells why not
	}
	w := open(t)
	w.lives(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	event := w.publish(t, "concert")
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.open(t, "/console/deliveries/"+dispatch.DeliveryID(event, id).String())
	b.shows(t, "before", "pending", "None yet.")
	b.until(t, "the page is connected", `document.querySelector("[data-live]").hasAttribute("data-connected")`)
	ask[bool](t, b, `document.documentElement.dataset.here = "yes"; true`)
	w.attempted(t, event, id, 503, `{"error":"out of order"}`)
	b.until(t, "the attempt is shown", `document.querySelector('[data-part="attempts"]').innerText.includes("503") && document.querySelector('[data-part="attempts"]').innerText.includes("out of order")`)
	b.until(t, "and its way goes on", `document.querySelector('[data-part="way"]').innerText.includes("attempt 1")`)
	if !ask[bool](t, b, `document.documentElement.dataset.here === "yes"`) {
		t.Error("the page was loaded anew")
	}
	b.accessible(t, "after an attempt")
	b.quiet(t, "after an attempt")
}
