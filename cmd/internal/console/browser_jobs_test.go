//go:build nightly

package console_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// job is a task of people in the console. It begins at the overview.
type job struct {
	name   string
	clicks int    // at most
	steps  string // texts to click, fields with what is typed, and ⏎; with > between them
	shows  string // texts, with | between them
	holds  string // Optional. An expression.
}

// jobs are done one after the other.
var jobs = []job{
	{"create and test", 5, "Destinations > New destination > name=Box office > url={taker} > event.* > Create > Send a test",
		"It took the event: 204", ""},
	{"find what failed", 2, "Old newsletter > news.item.added", "The endpoint answered 500|Out of order", ""},
	{"rotate a secret", 4, "Destinations > Ticket shop > Rotate > Rotate", "There is a new secret.", ""},
	{"show a secret", 4, "q=Box office > ⏎ > Show secret > Show it > Copy", "Give it to the receiver",
		`document.querySelector(".copy.done") !== null`},
	{"pause", 4, "Destinations > Ticket shop > Disable > Disable", "The destination is disabled.", ""},
	{"find who did it", 1, "Activity", "disabled Ticket shop", ""},
	{"resume", 4, "Destinations > Ticket shop > Enable > Enable", "The destination is enabled.", ""},
	{"attach a source", 5, "Feeds > Concerts > where={programme} > Look at it > Attach", "The source is attached.", ""},
	{"look at next weekend", 2, "Feeds > Concerts", "Sources", `[...document.querySelectorAll(".calendar time")]
		.some((day) => new Date(day.dateTime).getUTCDay() === 6 && Date.parse(day.dateTime) > Date.now())`},
	{"send all that failed", 3, "Deliveries > Send what failed > Send 3", "Sending to all destinations", ""},
	{"get a curl command", 2, "q={delivered} > ⏎ > Signed curl", "curl ", ""},
	{"find by id", 1, "q={event} > ⏎", "Recipients", ""},
	{"look at yesterday", 2, "Old newsletter > a day ago", "As it was at|Everything below is as of now.", ""},
	{"delete", 4, "q=Box office > ⏎ > Delete > Delete permanently", "The destination was deleted.", ""},
}

// TestJobsInBrowser does each job with the mouse, and counts the clicks.
func TestJobsInBrowser(t *testing.T) {
	needsBrowser(t)
	s := newScene(t)
	s.collects(t)
	s.handler = s.organizationsConsole(t)
	s.later.Store(int64(25 * time.Hour)) // there is a yesterday
	s.lives(t)
	s.names["taker"] = receiver(t, 204, "")
	s.source(t, s.names["programme"])
	b := newTab(t, s.serve(t), s.signIn(t, s.key).cookie)
	b.sized(t, 1280)
	for _, j := range jobs {
		b.open(t, "/console/")
		clicks := 0
		for step := range strings.SplitSeq(s.at(t, j.steps), " > ") {
			if field, text, typed := strings.Cut(step, "="); typed {
				b.fill(t, field, text)
				continue
			}
			clicks++
			b.clickText(t, j.name, step)
		}
		b.shows(t, j.name, strings.Split(j.shows, "|")...)
		if j.holds != "" {
			b.until(t, j.name+": "+j.holds, j.holds)
		}
		assert.True(t, clicks <= j.clicks, "%s: %d clicks, want %d at most", j.name, clicks, j.clicks)
		b.quiet(t, j.name)
	}
}

// clickText clicks what begins with a text, or presses Enter (⏎), and waits for the next page if that leads to one.
func (b *tab) clickText(t *testing.T, what, text string) {
	t.Helper()
	ask[bool](t, b, `document.documentElement.dataset.left = "yes"; true`)
	leaves := true
	if text == "⏎" {
		b.press(t, "Enter", enterKey, 1)
	} else {
		found := ask[string](t, b, fmt.Sprintf(`(() => {
			document.querySelector("[data-clicked]")?.removeAttribute("data-clicked");
			const found = [...document.querySelectorAll("a, button, summary, label")].find((e) => e.checkVisibility() &&
				e.innerText.trim().replace(/\s+/g, " ").startsWith(%q));
			found?.setAttribute("data-clicked", "");
			return found ? found.tagName + found.type : document.body.innerText;
		})()`, text))
		_, err := chromedp.Run(b, chromedp.Click("[data-clicked]", chromedp.AtLeast(0)))
		must.True(t, err == nil, "%s: nothing to click is called %q: %v\n%s", what, text, err, found)
		leaves = found != "BUTTONbutton" && found != "LABELundefined" && found != "SUMMARYundefined"
	}
	if leaves {
		b.until(t, what+": the page after "+text+" is there", `!document.documentElement.dataset.left`)
	}
}
