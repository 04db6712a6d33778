//go:build nightly

package console_test

import (
	"testing"

	"github.com/chromedp/cdproto/emulation"
)

const rightKey = 39

// TestTimesInBrowser: times are of the visitor's zone, with UTC in their title, also after a refresh.
func TestTimesInBrowser(t *testing.T) {
	t.Parallel()
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
	b.shows(t, "the footer", "Asia/Kat")
	w.publish(t, "concert/2")
	b.until(t, "after a refresh too", `document.querySelectorAll("time[data-local]").length > 1 && `+shifted)
	b.until(t, "ages are beside them", `document.querySelectorAll("time[data-ago]").length > 1 &&
		[...document.querySelectorAll("time[data-ago]")].every((time) => /now|ago$/.test(time.textContent))`)
	b.quiet(t, "times")
}

// TestSliderInBrowser: keys move the slider without a request; Enter loads the moment, at an absolute address.
func TestSliderInBrowser(t *testing.T) {
	t.Parallel()
	needsBrowser(t)
	w := open(t)
	id := w.destination(t, "Ticket shop", receiver(t, 204, ""))
	b := newTab(t, w.serve(t), w.signIn(t, w.key).cookie)
	b.open(t, "/console/destinations/"+id.String())
	ask[bool](t, b, `document.documentElement.dataset.here = "yes"; document.getElementById("moment").value = 0;
		document.getElementById("moment").focus(); true`)
	b.press(t, "ArrowRight", rightKey, 3)
	if !ask[bool](t, b, `document.documentElement.dataset.here === "yes" && document.getElementById("moment").value === "3" &&
		document.getElementById("moment").getAttribute("aria-valuetext").includes("GMT")`) {
		t.Error("keys don't move the slider, or load the page")
	}
	b.press(t, "Enter", enterKey, 1)
	b.until(t, "the moment is loaded", `location.search.startsWith("?at=20") && location.search.endsWith("Z") &&
		document.body.innerText.includes("As it was at")`)
	b.shows(t, "in the past", "Everything below is as of now.")
	b.quiet(t, "slider")
}
