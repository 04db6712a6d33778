//go:build nightly

package console_test

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"carillon/cmd/internal/adminapi"
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
	s := openAlone(t).scene(t) // a clock ahead ends all sessions
	s.collects(t)
	s.handler = s.organizationsConsole(t)
	s.later.Store(int64(25 * time.Hour)) // there is a yesterday
	s.lives(t)
	s.names["taker"] = receiver(t, 204, "")
	s.Source(t, s.names["programme"], "Europe/Rome")
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

// operatorLooks are the pages beside the admin API, auditorLooks the ones that auditors see.
var (
	operatorLooks = []look{
		{"operators-sign-in", "/console/sign-in", "Admin or auditor's token", "", ""},
		{"operators-overview", "/console/",
			"Overview|deliveries|75 s|Old newsletter|Sources|Disk", "registered", "example.org"},
		{"organizations", "/console/organizations", "Town hall|1 organization", "Town hall", "Failing now"},
		{"inside", "/console/organizations/{org}/destinations/{works}",
			"Town hall|Ticket shop|Time line", "Events", "concert/2"},
		{"sources", "/console/sources", "https://example.org/programme|Its owner objects|paused", "paused 1", "1 source"},
		{"new-source", "/console/sources/new?where=https://example.org/fair&type=site&timezone=Europe/Rome",
			"Add a source|Try it first", "Add", "The source is registered.|https://example.org/fair|Europe/Rome"},
		{"source", "/console/sources/{source}",
			"https://example.org/programme|Europe/Rome|Collect now", "Collect now", "Collect it now?"},
		{"collect", "/console/sources/{source}/collect",
			"when its host has a free turn", "Collect now", "when its host has a free turn."},
		{"pause", "/console/sources/{source}/pause", "until it is resumed|Why", "", ""},
		{"resume", "/console/sources/{paused}/resume", "Its owner objects", "Resume", "The source is resumed"},
		{"try", "/console/sources/try?where={programme}&type=site&timezone=Europe/Rome",
			"Nothing is stored", "Try it", "2 events on 1 page|Jazz on the roof|Which element gave which field"},
		{"system", "/console/system",
			"Consumers|v1.2.3|CARILLON_HTTP_ADDR|being rebuilt|nowhere", "Rebuild", "Rebuild deliveries?"},
		{"rebuild", "/console/system/items/rebuild", "Rebuild items?", "Rebuild", "The current one serves"},
		{"record", "/console/record", "Ticket shop|Town hall|Export all", "Ticket shop", "made the secret"},
		{"recorded", "/console/record/{works}", "Ticket shop|Time line|made the secret|Export as NDJSON", "", ""},
		{"changes", "/console/record/changes?kind=destination", "created Ticket shop|Export as NDJSON", "", ""},
		{"operators-missing", "/console/organizations/none/", "There is nothing here.", "", ""},
	}
	auditorLooks = []look{
		{"auditors-record", "/console/record", "Ticket shop|Town hall", "Ticket shop", "made the secret"},
		{"auditors-system", "/console/system", "Consumers|75 s", "", ""},
	}
)

const programme = `<title>Programme</title><script type="application/ld+json">[
	{"@type":"Event","name":"Jazz on the roof","startDate":"2030-06-05T20:00","endDate":"2030-06-05T23:00",
		"location":"Kajhallen, Copenhagen","description":"Three sets, and the sun goes down behind the band.","url":"/jazz"},
	{"@type":"Event","name":"Quiz night","startDate":"2030-06-07T19:00","location":"Town hall","url":"/quiz"}]</script>`

// collects lets trials of sources reach a page of events.
func (s *scene) collects(t *testing.T) {
	t.Helper()
	s.names["programme"] = serveAt(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/programme" {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte(programme))
	})) + "/programme"
	s.collectable = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
}

// TestOperatorsPagesInBrowser looks at the pages of operators and auditors.
func TestOperatorsPagesInBrowser(t *testing.T) {
	needsBrowser(t)
	s := openAlone(t).scene(t) // it looks at lists of all organizations
	s.collects(t)
	s.admin = s.operatorsConsole(t, adminToken)
	s.lives(t)
	paused := s.Source(t, "https://example.net/calendar", "Europe/Rome")
	source := s.Source(t, "https://example.org/programme", "Europe/Rome")
	s.names["source"], s.names["paused"] = source.String(), paused.String()
	behind, none := 75.0, 0.0
	consumers := []adminapi.Projection{
		consumer("deliveries", 2211, &behind), consumer("feeds", 3, &none), consumer("items", 30_412, &none),
		consumer("health", 1, &none), {Name: "dispatcher", Kind: "process", Position: "52077/52077"},
	}
	consumers[3].Rebuild = &adminapi.Rebuild{Done: 40, Total: 100}
	b := newTab(t, serveAt(t, s.admin), "")
	operator := s.operator(t)
	operator.post(t, "/console/sources/"+paused.String()+"/pause", "reason", "Its owner objects").leadsTo(t,
		"/console/sources/"+paused.String()+"?done=paused")
	auditor, _ := s.auditor(t)
	look := func(looks []look, cookie string) {
		for _, l := range looks {
			t.Run(l.name, func(t *testing.T) {
				s.projections.set(consumers...)
				if b.signedIn(t, cookie); l.out() {
					b.signedIn(t, "")
				}
				l.try(t, b, s.at(t, l.path))
			})
		}
	}
	look(operatorLooks, operator.cookie)
	look(auditorLooks, auditor.cookie)
}
