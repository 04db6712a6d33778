//go:build nightly

package console_test

import (
	"fmt"
	"html"
	"strings"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/destinations"
)

const rightKey = 39

// TestTimesInBrowser: all times of a page are of the visitor's zone, with UTC in their title, also after a refresh, in
// sentences and in fields, whose values are sent as UTC.
func TestTimesInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	id := w.subscribed(t, "Ticket shop", receiver(t, 204, ""))
	w.publish(t, "concert/1")
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	call(t, b, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Kathmandu"})
	b.sized(t, 1280)
	b.pointAt(t, 5, 5)
	b.open(t, "/console/destinations/"+id.String()+"/deliveries")
	const shifted = `[...document.querySelectorAll("time[data-local]")].every((time) =>
		(Date.parse(time.textContent + " UTC") - Date.parse(time.title)) / 60000 === 345)`
	b.until(t, "times are of the zone", `document.querySelectorAll("time[data-local]").length > 0 && `+shifted)
	b.shows(t, "the footer", "Asia/Kat", "UTC+5:45")
	w.publish(t, "concert/2")
	b.until(t, "after a refresh too", `document.querySelectorAll("time[data-local]").length > 1 && `+shifted)
	b.until(t, "ages are beside them", `document.querySelectorAll("time[data-ago]").length > 1 &&
		[...document.querySelectorAll("time[data-ago]")].every((time) => /now|ago$/.test(time.textContent))`)
	w.signIn(t, w.key).post(t, "/console/destinations/"+id.String()+"/rotate").expect(t, 200)
	for _, page := range []string{"/console/destinations/" + id.String(), "/console/"} {
		b.open(t, page)
		left := ask[[]string](t, b, `[...document.querySelectorAll("main, main svg title")].flatMap((e) =>
			(e.matches("main") ? e.innerText : e.textContent).match(/[^\n]*\d\d:\d\d(:\d\d)? UTC[^\n]*/g) ?? [])`)
		assert.True(t, len(left) == 0, "%s has times of two zones: %q", page, left)
	}
	b.open(t, "/console/deliveries?since=2026-11-28T20:00")
	b.until(t, "a field is of the zone", `document.getElementById("since").value.startsWith("2026-11-29T01:45")`)
	b.leave(t, "Filter")
	b.until(t, "and is sent as UTC", `location.search.includes("since=2026-11-28T20%3A00")`)
	b.quiet(t, "times")
}

// TestSliderInBrowser: keys move the slider without a request, and a field shows its moment; Enter loads it, at an
// absolute address. A moment can be typed.
func TestSliderInBrowser(t *testing.T) {
	needsBrowser(t)
	w := open(t)
	id := w.destination(t, "Ticket shop", receiver(t, 204, ""))
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.open(t, "/console/destinations/"+id.String())
	ask[bool](t, b, `document.documentElement.dataset.here = "yes"; document.getElementById("moment").value = 0;
		document.getElementById("moment").focus(); true`)
	b.press(t, "ArrowRight", rightKey, 3)
	if !ask[bool](t, b, `document.documentElement.dataset.here === "yes" &&
		document.getElementById("moment").value === "3" &&
		/^\d+ \w+ \d{4}, [\d:]{8}$/.test(document.getElementById("moment").getAttribute("aria-valuetext")) &&
		Math.abs(new Date(document.getElementById("at").value) - Date.now()) < 600000`) {
		t.Error("keys don't move the slider, or load the page")
	}
	b.press(t, "Enter", enterKey, 1)
	b.until(t, "the moment is loaded", `location.search.startsWith("?at=20") && location.search.endsWith("Z") &&
		document.body.innerText.includes("As it was at")`)
	b.shows(t, "in the past", "Everything below is as of now.")
	ask[bool](t, b, `(() => { const at = document.getElementById("at"); at.value = "2020-02-03T04:05";
		return at.dispatchEvent(new Event("input")); })()`)
	b.leave(t, "Show")
	b.shows(t, "before it was created", "It did not exist yet.")
	assert.Equal(t, ask[string](t, b, "location.search"), "?at=2020-02-03T04:05:00.000Z", "a typed moment is loaded as")
	b.quiet(t, "slider")
}

// TestLongNamesInBrowser: names of maximum length, without a place to break or written from right to left, push
// nothing off a page of any width.
func TestLongNamesInBrowser(t *testing.T) {
	needsBrowser(t)
	w := &scene{world: open(t), names: map[string]string{}}
	w.fillFeed(t)
	id := w.subscribed(t, "Plain", receiver(t, 500, strings.Repeat("W", 9000)))
	reader := w.signIn(t, w.key)
	b := newTab(t, w.serve(t), reader.cookie)
	site := uuid.MustParse(w.names["site"])
	for what, name := range map[string]string{"one word": strings.Repeat("W", 255),
		"from the right": strings.Repeat("\u0645\u0631\u062d\u0628\u0627 ", 40), "quotes": strings.Repeat(`"<`, 127)} {
		out := must.Get(w.Commands.ReviseDestination(t.Context(), w.by(w.org), renamed(id, name)))(t)
		revised := command.ReviseFeed{ID: uuid.MustParse(w.names["feed"]), Name: &name}
		must.Get(w.Commands.ReviseFeed(t.Context(), w.by(w.org), revised))(t)
		w.observe(t, site, name, len(what))
		must.Eventually(t, "the feed shows it", func() bool {
			page := reader.get(t, w.at(t, "/console/feeds/{feed}")).body
			return strings.Count(page, html.EscapeString(name[:20])) > 2
		})
		w.Await(t, out.Position, destinations.ReadModel.Name, audit.ReadModel.Name)
		event := w.publish(t, strings.Repeat("S", 200))
		w.attempted(t, event, id, 500, strings.Repeat("W", 9000))
		at := "/console/destinations/" + id.String()
		for _, path := range []string{
			"/console/", "/console/destinations", at, at + "/edit", at + "/delete", at + "/deliveries",
			at + "/replay?status=failed", "/console/deliveries",
			"/console/deliveries/" + dispatch.DeliveryID(event, id).String(), "/console/events", "/console/events/" +
				event.String(),
			"/console/feeds", w.at(t, "/console/feeds/{feed}"), w.at(t, "/console/feeds/{feed}/items/{item}"),
		} {
			b.sized(t, 1200)
			b.open(t, path)
			b.fits(t, what+" "+path, everyWidth...)
		}
	}
}

// click waits for an element and clicks it.
func (b *tab) click(t *testing.T, selector string) {
	t.Helper()
	found := fmt.Sprintf("document.querySelector(%q)", selector)
	b.until(t, selector+" is there", found+" !== null")
	ask[bool](t, b, found+".click(), true")
}

// authorize types a key into the playground.
func (b *tab) authorize(t *testing.T, key string) {
	t.Helper()
	b.click(t, "button.authorize")
	b.until(t, "a key can be typed", `document.querySelector("#auth-bearer-value") !== null`)
	ask[bool](t, b, fmt.Sprintf(`(() => {
		const field = document.querySelector("#auth-bearer-value");
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(field, %q);
		return field.dispatchEvent(new Event("input", {bubbles: true}));
	})()`, key))
	b.click(t, ".auth-btn-wrapper button.authorize")
	b.until(t, "the key is there", `document.querySelector(".auth-btn-wrapper button.authorize") === null`)
	b.click(t, "button.btn-done")
}

// execute opens an operation of the playground, sends its example, and returns what is shown of the answer.
func (b *tab) execute(t *testing.T, tag, operation string) string {
	t.Helper()
	b.click(t, "#operations-tag-"+tag)
	at := "#operations-" + tag + "-" + operation
	b.click(t, at+" .opblock-summary-control")
	button := fmt.Sprintf("document.querySelector(%q)", at+" button.execute")
	b.until(t, operation+" can be executed", button+`?.checkVisibility({visibilityProperty: true})`)
	assert.True(t, !ask[bool](t, b, fmt.Sprintf("document.querySelector(%q) !== null", at+" .opblock-loading-animation")),
		"%s can be executed before it is loaded", operation)
	ask[bool](t, b, button+".click(), true")
	answer := fmt.Sprintf("document.querySelector(%q)", at+" .live-responses-table .response .response-col_status")
	b.until(t, operation+" is answered", answer+" !== null")
	return ask[string](t, b, answer+".innerText")
}

// TestPlaygroundInBrowser looks at the API's documentation: collapsed, and with operations and their answers.
func TestPlaygroundInBrowser(t *testing.T) {
	needsBrowser(t)
	w := newScene(t)
	b := newTab(t, w.serve(t), "")
	look := func(what string) {
		for _, width := range []int64{360, 1280} {
			for _, dark := range []bool{false, true} {
				b.dark(t, dark)
				b.fits(t, fmt.Sprintf("%s, %d wide, dark: %t", what, width, dark), width)
			}
		}
		b.pictures(t, "playground-"+what)
	}
	b.sized(t, 1280)
	b.open(t, "/docs")
	b.until(t, "the operations are listed", `document.querySelectorAll(".opblock-tag").length > 5`)
	const open = `document.querySelectorAll(".opblock-tag[data-is-open=true], .opblock.is-open, .models.is-open").length`
	n := ask[int](t, b, open)
	assert.True(t, n <= 0, "%d tags, operations or models are open at the start", n)
	for _, dark := range []bool{false, true} {
		b.dark(t, dark)
		behind := ask[int](t, b, `parseInt(getComputedStyle(document.body).backgroundColor.slice(4))`)
		inverted := ask[bool](t, b, `getComputedStyle(document.querySelector(".swagger-ui")).filter.includes("invert")`)
		assert.True(t, behind < 128 == dark && inverted == dark,
			"dark: %t, and the background's red is %d, text inverted: %t", dark, behind, inverted)
	}
	look("collapsed")
	b.authorize(t, w.key)
	for _, one := range [][2]string{{"Event_types", "listEventTypes"}, {"Destinations", "createDestination"}} {
		if status := b.execute(t, one[0], one[1]); !strings.HasPrefix(status, "20") {
			t.Errorf("%s is answered with %s", one[1], status)
		}
	}
	look("open")
	b.quiet(t, "playground")
}
