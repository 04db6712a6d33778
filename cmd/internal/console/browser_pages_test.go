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
	shows []string
	// A change, made with the keyboard only and without scripts: the button or link to press, and the text shown
	// then.
	press string
	then  []string
	out   bool // without a session
}

// looks are all pages. A new page is one line here.
var looks = []look{
	{
		name:  "sign-in",
		path:  "/console/sign-in",
		shows: []string{"API key", "Sign in"},
		out:   true,
	},
	{
		name:  "enter",
		path:  "/console/enter?token=made-up",
		shows: []string{"works once"},
		press: "Sign in",
		then:  []string{"was used or has expired"},
		out:   true,
	},
	{
		name:  "overview",
		path:  "/console/",
		shows: []string{"Overview", "Town hall", "Old newsletter", "Failing now", "Pending"},
		press: "Sign out",
		then:  []string{"API key"},
	},
	{
		name:  "destinations",
		path:  "/console/destinations",
		shows: []string{"Ticket shop", "Old newsletter", "New destination"},
		press: "Ticket shop",
		then:  []string{"Time line"},
	},
	{
		name: "destination",
		path: "/console/destinations/{works}",
		shows: []string{"Ticket shop", "Time line", "Secrets", "whsec_…", "Subscriptions", "everything", "Latest deliveries",
			"its first secret"},
	},
	{
		name:  "destination-then",
		path:  "/console/destinations/{works}?moment=0",
		shows: []string{"As it was at"},
		press: "Show it as it is now",
		then:  []string{"Latest deliveries"},
	},
	{name: "new-destination", path: "/console/destinations/new", shows: []string{"New destination", "Custom headers"}},
	{
		name:  "search",
		path:  "/console/search?q=e",
		shows: []string{"Ticket shop", "Concerts"},
		press: "Ticket shop",
		then:  []string{"Time line"},
	},
	{
		name:  "activity",
		path:  "/console/activity",
		shows: []string{"Changes of all destinations", "Ticket shop", "its first secret"},
		press: "Old newsletter",
		then:  []string{"3 failures in a row"},
	},
	{
		name:  "start",
		path:  "/console/destinations/{fresh}/start",
		shows: []string{"First steps of", "Give its secret to your receiver", "whsec_", "Choose its events"},
		press: "Send a test",
		then:  []string{"It took the event: 204"},
	},
	{
		name:  "new-subscription",
		path:  "/console/destinations/{works}/subscriptions/new",
		shows: []string{"New subscription of", "news.*", "A news item was added to a news feed.", "Concerts"},
		press: "Add",
		then:  []string{"Events must be chosen"},
	},
	{
		name:  "edit-subscription",
		path:  "/console/destinations/{works}/subscriptions/{subscription}/edit",
		shows: []string{"Edit a subscription of", "Concerts"},
		press: "Save",
		then:  []string{"The changes were saved."},
	},
	{
		name:  "subscription-off",
		path:  "/console/destinations/{works}/subscriptions/{subscription}/disable",
		shows: []string{"Switch off a subscription"},
		press: "Switch off",
		then:  []string{"The subscription is off", "switched off"},
	},
	{
		name:  "subscription-on",
		path:  "/console/destinations/{works}/subscriptions/{subscription}/enable",
		shows: []string{"Switch on a subscription"},
		press: "Switch on",
		then:  []string{"The subscription is on"},
	},
	{
		name:  "edit-destination",
		path:  "/console/destinations/{works}/edit",
		shows: []string{"Edit Ticket shop"},
		press: "Save",
		then:  []string{"The changes were saved."},
	},
	{
		name:  "enable",
		path:  "/console/destinations/{fresh}/enable",
		shows: []string{"Nothing is pending"},
		press: "Enable",
		then:  []string{"The destination is enabled."},
	},
	{
		name:  "disable",
		path:  "/console/destinations/{fresh}/disable",
		shows: []string{"Nothing is sent until"},
		press: "Disable",
		then:  []string{"The destination is disabled."},
	},
	{
		name:  "delete",
		path:  "/console/destinations/{fresh}/delete",
		shows: []string{"can't be undone"},
		press: "Delete permanently",
		then:  []string{"The destination was deleted."},
	},
	{
		name:  "test",
		path:  "/console/destinations/{fresh}/test",
		shows: []string{"One signed test event"},
		press: "Send the test event",
		then:  []string{"It took the event: 204"},
	},
	{
		name:  "validate",
		path:  "/console/destinations/{fresh}/validate",
		shows: []string{"Any answer counts"},
		press: "Try it",
		then:  []string{"It answered 204"},
	},
	{
		name:  "rotate",
		path:  "/console/destinations/{fresh}/rotate",
		shows: []string{"another 24 hours"},
		press: "Rotate",
		then:  []string{"There is a new secret.", "whsec_", "Give it to the receiver only"},
	},
	{
		name:  "deliveries",
		path:  "/console/destinations/{fails}/deliveries?status=failed",
		shows: []string{"3 deliveries", "news.item.added", "500"},
		press: "Filter",
		then:  []string{"3 deliveries"},
	},
	{
		name:  "replay-many",
		path:  "/console/destinations/{fails}/replay?status=failed",
		shows: []string{"Send many again", "3", "deliveries"},
		press: "Send 3 again",
		then:  []string{"Sending to Old newsletter"},
	},
	{
		name:  "replay-all",
		path:  "/console/deliveries/replay?last=hour",
		shows: []string{"Send what failed", "to 1 destination", "7 days"},
		press: "Send 3",
		then:  []string{"Sending to all destinations"},
	},
	{
		name:  "backfill",
		path:  "/console/destinations/{works}/backfill?since={hour}",
		shows: []string{"Send missed events", "4", "without those it already got"},
		press: "Send missed events",
		then:  []string{"Sending to Ticket shop"},
	},
	{
		name:  "delivery",
		path:  "/console/deliveries/{delivered}",
		shows: []string{"published", "dispatched", "attempt 1", "204", "Concert in the park", "webhook-id"},
	},
	{
		name:  "failed-delivery",
		path:  "/console/deliveries/{failed}",
		shows: []string{"500", "the endpoint answered 500", "<h1>Out of order</h1>", "Headers of the response"},
	},
	{
		name:  "replay",
		path:  "/console/deliveries/{delivered}/replay",
		shows: []string{"Send it again?"},
		press: "Send again",
		then:  []string{"The delivery will be sent again."},
	},
	{
		name:  "feeds",
		path:  "/console/feeds",
		shows: []string{"Concerts in town", "New feed"},
		press: "Concerts",
		then:  []string{"Organ at noon"},
	},
	{
		name: "feed",
		path: "/console/feeds/{feed}",
		shows: []string{"Organ at noon", "Town hall, Market 1", "Mon", "has a picture", `<b>Bold</b> & "quoted"`,
			"example.org/concerts", "Attach a source"},
		press: "Month after →",
		then:  []string{"Its sources show nothing for this month."},
	},
	{
		name:  "attach-source",
		path:  "/console/feeds/{feed}/sources/new?where=https%3A%2F%2Fexample.org%2Ftheatre%2F{org}&type=site",
		shows: []string{"Attach a source to Concerts", "a page that lists others", "By its id"},
		press: "Attach",
		then:  []string{"The source is attached."},
	},
	{
		name:  "item",
		path:  "/console/feeds/{feed}/items/{item}",
		shows: []string{"Organ at noon", "Town hall, Market 1", "Dates", "https://example.org/poster.png", "Music &"},
		press: "Submit",
		then:  []string{"Thank you. That is recorded."},
	},
	{name: "new-feed", path: "/console/feeds/new", shows: []string{"Description"}},
	{
		name:  "edit-feed",
		path:  "/console/feeds/{feed}/edit",
		shows: []string{"Edit Concerts"},
		press: "Save",
		then:  []string{"The changes were saved."},
	},
	{
		name:  "detach",
		path:  "/console/feeds/{feed}/sources/{association}/detach",
		shows: []string{"No more items come from"},
		press: "Detach",
		then:  []string{"The source was detached."},
	},
	{
		name:  "delete-feed",
		path:  "/console/feeds/{feed}/delete",
		shows: []string{"can't be undone"},
		press: "Delete permanently",
		then:  []string{"The feed was deleted."},
	},
	{
		name:  "all-deliveries",
		path:  "/console/deliveries",
		shows: []string{"Ticket shop", "Old newsletter", "news.item.added", "failed", "204"},
		press: "Ticket shop",
		then:  []string{"Time line"},
	},
	{
		name:  "events",
		path:  "/console/events",
		shows: []string{"news.item.added", "concert/2", "Published"},
		press: "Destinations",
		then:  []string{"New destination"},
	},
	{
		name:  "event",
		path:  "/console/events/{event}",
		shows: []string{"Recipients", "Succeeded 1", "Failed 1", "Ticket shop", "Concert in the park"},
		press: "Succeeded",
		then:  []string{"Succeeded 1", "Ticket shop"},
	},
	{name: "missing", path: "/console/deliveries/none", shows: []string{missing}},
}

// missing is shown if there is no such page; the browser reports the status 404 on its console.
const missing = "There is nothing here."

// TestPagesInBrowser looks at every page.
func TestPagesInBrowser(t *testing.T) {
	t.Parallel()
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
			case l.out:
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
	b.shows(t, "as it is", l.shows...)
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
	b.fits(t, "on a wide screen", 2560)
	b.fits(t, "on a small screen", 360)
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
	b.shows(t, "without scripts", l.shows...)
	if l.press != "" {
		ask[bool](t, b, `document.documentElement.dataset.left = "yes"; true`)
		b.pressButton(t, l.press)
		b.until(t, "the page after "+l.press+" is there", `!document.documentElement.dataset.left`)
		b.shows(t, "after "+l.press, l.then...)
		b.accessible(t, "after "+l.press)
	}
	b.forget()
}
