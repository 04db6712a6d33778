package console_test

import (
	"strings"
	"testing"
)

// look is a page in a browser. The nightly suite tries each in light and dark, at 360 and at 2,560 pixels, with the
// keyboard only, and without scripts.
type look struct {
	name  string
	path  string // see scene.at
	shows string // texts, with | between them
	// A change, made with the keyboard only and without scripts: the button or link to press, and the texts shown
	// then.
	press, then string
}

// looks are all pages. A new page is one line here.
var looks = []look{
	{"sign-in", "/console/sign-in", "API key|Sign in", "", ""},
	{"enter", "/console/enter?token=made-up", "works once", "Sign in", "was used or has expired"},
	{"overview", "/console/", "Overview|Town hall|Old newsletter|Failing now|Pending", "Sign out", "API key"},
	{"destinations", "/console/destinations", "Ticket shop|Old newsletter|New destination", "Ticket shop", "Time line"},
	{"destination", "/console/destinations/{works}",
		"Ticket shop|Time line|Secrets|whsec_…|Subscriptions|everything|Latest deliveries|made the secret", "", ""},
	{"destination-then", "/console/destinations/{works}?moment=0",
		"As it was at", "Show it as it is now", "Latest deliveries"},
	{"new-destination", "/console/destinations/new", "New destination|Advanced|news.item.added", "Create",
		"Name must not be empty."},
	{"search", "/console/search?q=e", "Ticket shop|Concerts", "Ticket shop", "Time line"},
	{"activity", "/console/activity",
		"Activity|subscribed Ticket shop|to everything|created Concerts|made the secret|24 hours",
		"destination Old newsletter", "4 failures in a row"},
	{"start", "/console/destinations/{fresh}/start",
		"First steps of|Give its secret to your receiver|whsec_|Choose its events", "Send a test", "It took the event: 204"},
	{"new-subscription", "/console/destinations/{works}/subscriptions/new",
		"New subscription of|news.*|A news item was added to a news feed.|Concerts", "Add", "Events must be chosen"},
	{"edit-subscription", "/console/destinations/{works}/subscriptions/{subscription}/edit",
		"Edit a subscription of|Concerts", "Save", "The changes were saved."},
	{"subscription-off", "/console/destinations/{works}/subscriptions/{subscription}/disable",
		"Switch off a subscription", "Switch off", "The subscription is off|switched off"},
	{"subscription-on", "/console/destinations/{works}/subscriptions/{subscription}/enable",
		"Switch on a subscription", "Switch on", "The subscription is on"},
	{"edit-destination", "/console/destinations/{works}/edit", "Edit Ticket shop", "Save", "The changes were saved."},
	{"enable", "/console/destinations/{fresh}/enable", "Nothing is pending", "Enable", "The destination is enabled."},
	{"disable", "/console/destinations/{fresh}/disable",
		"Nothing is sent until", "Disable", "The destination is disabled."},
	{"delete", "/console/destinations/{fresh}/delete",
		"can't be undone", "Delete permanently", "The destination was deleted."},
	{"test", "/console/destinations/{fresh}/test",
		"One signed test event", "Send the test event", "It took the event: 204"},
	{"validate", "/console/destinations/{fresh}/validate", "Any answer counts", "Try it", "It answered 204"},
	{"rotate", "/console/destinations/{fresh}/rotate",
		"another 24 hours", "Rotate", "There is a new secret.|whsec_|Give it to the receiver only"},
	{"deliveries", "/console/destinations/{fails}/deliveries?status=failed",
		"3 deliveries|news.item.added|500", "Filter", "3 deliveries"},
	{"replay-all", "/console/deliveries/replay?last=hour",
		"Send what failed|to 1 destination|7 days", "Send 4", "Sending to all destinations"},
	// before they are sent again below
	{"replay-many", "/console/destinations/{fails}/replay?status=failed",
		"Send many again|3|deliveries", "Send 3 again", "Sending to Old newsletter"},
	{"backfill", "/console/destinations/{works}/backfill?since={hour}",
		"Send missed events|4|without those it already got", "Send missed events", "Sending to Ticket shop"},
	{"delivery", "/console/deliveries/{delivered}",
		"published|dispatched|attempt 1|204|Concert in the park|webhook-id", "", ""},
	{"failed-delivery", "/console/deliveries/{failed}",
		"500|the endpoint answered 500|<h1>Out of order</h1>|Headers of the response", "", ""},
	{"replay", "/console/deliveries/{delivered}/replay",
		"Send it again?", "Send again", "The delivery will be sent again."},
	{"feeds", "/console/feeds", "Concerts in town|New feed", "Concerts", "Organ at noon"},
	{"feed", "/console/feeds/{feed}",
		`Organ at noon|Town hall, Market 1|Mon|has a picture|<b>Bold</b> & "quoted"|example.org/concerts|Attach a source`,
		"Month after →", "Its sources show nothing for this month."},
	{"attach-source", "/console/feeds/{feed}/sources/new?where=https%3A%2F%2Fexample.org%2Ftheatre%2F{org}&type=site",
		"Attach a source to Concerts|a page that lists others|By its id", "Attach", "The source is attached."},
	{"item", "/console/feeds/{feed}/items/{item}",
		"Organ at noon|Town hall, Market 1|Dates|https://example.org/poster.png|Music &", "Submit",
		"Thank you. That is recorded."},
	{"new-feed", "/console/feeds/new", "Description", "Create", "Name must not be empty."},
	{"edit-feed", "/console/feeds/{feed}/edit", "Edit Concerts", "Save", "The changes were saved."},
	{"detach", "/console/feeds/{feed}/sources/{association}/detach",
		"No more items come from", "Detach", "The source was detached."},
	{"delete-feed", "/console/feeds/{feed}/delete", "can't be undone", "Delete permanently", "The feed was deleted."},
	{"all-deliveries", "/console/deliveries",
		"Ticket shop|Old newsletter|news.item.added|failed|204", "Ticket shop", "Time line"},
	{"events", "/console/events", "news.item.added|concert/2|Published", "Destinations", "New destination"},
	{"event", "/console/events/{event}",
		"Recipients|Succeeded 1|Failed 1|Ticket shop|Concert in the park", "Succeeded", "Succeeded 1|Ticket shop"},
	{"missing", "/console/deliveries/none", missing, "", ""},
}

// out reports whether the page is for visitors without a session.
func (l look) out() bool {
	return strings.HasPrefix(l.path, "/console/sign-in") || strings.HasPrefix(l.path, "/console/enter")
}

// missing is shown if there is no such page; the browser reports the status 404 on its console.
const missing = "There is nothing here."

// TestPagesInBrowser looks at every page.
func TestPagesInBrowser(t *testing.T) {
	needsBrowser(t)
	s := newScene(t)
	s.lives(t)
	base := s.serve(t)
	b := newTab(t, base, "")
	signedIn := s.signIn(t, s.key).cookie
	for _, l := range looks {
		t.Run(l.name, func(t *testing.T) {
			cookie := signedIn
			switch {
			case l.out():
				cookie = ""
			case l.press == "Sign out":
				cookie = s.signIn(t, s.key).cookie
			}
			b.signedIn(t, cookie)
			l.try(t, b, s.at(t, l.path))
		})
	}
}

// try looks at a page.
func (l look) try(t *testing.T, b *tab, path string) {
	t.Helper()
	b.sized(t, 1280)
	b.dark(t, false)
	b.open(t, path)
	b.shows(t, "as it is", strings.Split(l.shows, "|")...)
	b.accessible(t, "as it is")
	if testing.Short() {
		if !strings.Contains(b.text(t), missing) {
			b.quiet(t, "as it is")
		}
		b.forget()
		return
	}
	b.byKeys(t, "by keys")
	b.pictures(t, l.name)
	b.sized(t, 1280)
	b.dark(t, false)
	b.fits(t, "as it is", everyWidth...)
	b.sized(t, 360)
	b.accessible(t, "on a small screen")
	b.dark(t, true)
	b.accessible(t, "in the dark, small")
	if !strings.Contains(b.text(t), missing) {
		b.quiet(t, "as it is")
	}

	b.scripts(t, false)
	defer b.scripts(t, true)
	b.sized(t, 1280)
	b.open(t, path)
	b.shows(t, "without scripts", strings.Split(l.shows, "|")...)
	if l.press != "" {
		b.leave(t, l.press)
		b.shows(t, "after "+l.press, strings.Split(l.then, "|")...)
		b.accessible(t, "after "+l.press)
		b.fits(t, "after "+l.press, 360)
	}
	b.forget()
}
