//go:build nightly

package console_test

import (
	"fmt"
	"strings"
	"testing"
)

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
	if ask[bool](t, b, fmt.Sprintf("document.querySelector(%q) !== null", at+" .opblock-loading-animation")) {
		t.Errorf("%s can be executed before it is loaded", operation)
	}
	ask[bool](t, b, button+".click(), true")
	answer := fmt.Sprintf("document.querySelector(%q)", at+" .live-responses-table .response .response-col_status")
	b.until(t, operation+" is answered", answer+" !== null")
	return ask[string](t, b, answer+".innerText")
}

// TestPlaygroundInBrowser looks at the API's documentation: collapsed, and with operations and their answers.
func TestPlaygroundInBrowser(t *testing.T) {
	t.Parallel()
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
	if n := ask[int](t, b, open); n > 0 {
		t.Errorf("%d tags, operations or models are open at the start", n)
	}
	for _, dark := range []bool{false, true} {
		b.dark(t, dark)
		behind := ask[int](t, b, `parseInt(getComputedStyle(document.body).backgroundColor.slice(4))`)
		inverted := ask[bool](t, b, `getComputedStyle(document.querySelector(".swagger-ui")).filter.includes("invert")`)
		if behind < 128 != dark || inverted != dark {
			t.Errorf("dark: %t, and the background's red is %d, text inverted: %t", dark, behind, inverted)
		}
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
