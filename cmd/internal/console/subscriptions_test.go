package console_test

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/command"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/subscriptions"
	"carillon/query"
)

// submit sends a form with several values of a name.
func (b *browser) submit(t *testing.T, path string, form url.Values) page {
	t.Helper()
	return b.send(t, http.MethodPost, path, form, nil)
}

// only returns the only subscription of a destination.
func (w *world) only(tb testing.TB, destination uuid.UUID) query.Subscription {
	tb.Helper()
	found, _, err := w.Queries.Subscriptions(tb.Context(), w.org, destination, 10, 0)
	must.True(tb, err == nil && len(found) == 1, "%+v, %v; want one subscription", found, err)
	return found[0]
}

// namedFeed creates a feed.
func (w *world) namedFeed(tb testing.TB, name string) uuid.UUID {
	tb.Helper()
	in := command.CreateFeed{Name: name, Description: name + " in town"}
	made := must.Get(w.Commands.CreateFeed(tb.Context(), w.by(w.org), in))(tb)
	w.Await(tb, made.Position, feeds.ReadModel.Name)
	return made.ID
}

// TestNewDestination_withEvents: the form of a destination has its event types; the next page has the secret, for a
// quarter of an hour, and a test.
func TestNewDestination_withEvents(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	concerts := w.namedFeed(t, "Concerts <b>")
	b.get(t, "/console/destinations/new").expect(t, 200, "news.*", "A news item was added to a news feed.",
		"factcheck.status.changed", "Concerts <b>")
	address := receiver(t, 204, "")
	form := url.Values{
		"name": {"Hook"}, "url": {address}, "debounce": {"0"}, "types": {"event.item.added", "news.*"}, "scope": {"feeds"},
	}
	for value, refusal := range map[string]string{
		"event/" + uuid.NewString(): "there is no event feed",
		"event/x":                   "feeds",
		"x/" + concerts.String():    "must be",
	} {
		form["feeds"] = []string{value}
		if p := b.submit(t, "/console/destinations/new", form); p.status < 400 || !strings.Contains(p.body, refusal) {
			t.Errorf("feed %s: %d\n%s", value, p.status, p.shown(""))
		}
	}
	form["feeds"], form["types"] = []string{"event/" + concerts.String()}, []string{"no.such"}
	b.submit(t, "/console/destinations/new", form).expect(t, 400, "Events include a type that is not known",
		`value="no.such" checked`)
	_, total, err := w.Queries.FindDestinations(t.Context(), w.org, query.DestinationFilter{Limit: 1})
	must.True(t, err == nil && total == 0, "%d destinations were created by refused forms, %v", total, err)
	form["types"] = []string{"event.item.added", "news.*"}
	made := b.submit(t, "/console/destinations/new", form)
	path, _, _ := strings.Cut(made.location, "/start?")
	id := mustID(t, strings.TrimPrefix(path, "/console/destinations/"))
	found := w.only(t, id)
	assert.True(t, found.Active && strings.Join(found.EventTypes, " ") == "event.item.added news.*" &&
		len(found.Feeds) == 1 && found.Feeds[0].FeedID == concerts, "it has %+v", found)
	first := b.get(t, made.location).expect(t, 200, "The destination was created.", "Send a test", "whsec_")
	if strings.Contains(first.body, "It has no subscription") || !regexp.MustCompile(
		`data-copy="whsec_[^"]{40,}"`).MatchString(first.body) {
		t.Errorf("no secret to copy, or no subscription:\n%s", first.shown(""))
	}
	assert.True(t, w.lastDisclosure(t, id) != eventstore.Start, "that the secret was shown is not recorded")
	b.get(t, path).expect(t, 200, "event.item.added", "news.*", "Concerts <b>")
	for _, key := range []*browser{w.signIn(t, w.scoped(t, "read", "write")), w.operator(t)} {
		at := path
		if key.at != nil {
			at = strings.Replace(path, "/console", "/console/organizations/"+w.org.String(), 1)
		}
		if p := key.get(t, at+"/start").expect(t, 200, "Somebody who may see secrets"); regexp.MustCompile(
			`whsec_[A-Za-z0-9+/]`).MatchString(p.body) {
			t.Errorf("a secret is shown to one who may not see it:\n%s", p.shown(""))
		}
	}
	w.later.Store(int64(16 * 60e9))
	b.get(t, path+"/start").expect(t, 200).lacks(t, "data-copy")
}

// TestSubscriptions: subscriptions are added, changed, switched off and on, and deleted.
func TestSubscriptions(t *testing.T) {
	w := open(t)
	b := w.signIn(t, w.key)
	id := w.destination(t, "Hook", receiver(t, 204, ""))
	path := "/console/destinations/" + id.String()
	concerts := w.namedFeed(t, "Concerts")
	b.get(t, path).expect(t, 200, "nothing is sent to this destination", path+"/subscriptions/new")
	b.get(t, path+"/subscriptions/new").expect(t, 200, "New subscription", "Concerts")
	b.submit(t, path+"/subscriptions/new", url.Values{"scope": {"all"}, "types": {"*"}, "externalId": {"mine"}}).
		leadsTo(t, path+"?done=subscribed#subscriptions")
	b.submit(t, path+"/subscriptions/new", url.Values{"scope": {"all"}, "types": {"*"}, "externalId": {"mine"}}).
		expect(t, 409, "External id is taken", `value="*" checked`)
	found := w.only(t, id)
	at := path + "/subscriptions/" + found.ID.String()
	opened := b.get(t, at+"/edit").expect(t, 200, `value="*" checked`, `value="mine"`).seenBy(t)

	change := url.Values{
		"seen": {opened}, "types": {"event.*"}, "scope": {"feeds"}, "feeds": {"event/" + concerts.String()},
		"externalId": {"mine"},
	}
	b.submit(t, at+"/edit", change).leadsTo(t, path+"?done=saved#subscriptions")
	change["types"] = []string{"news.*"}
	again := b.submit(t, at+"/edit", change).expect(t, 409, "changed since you opened the form", "It is now:",
		`value="news.*" checked`)
	if found = w.only(t, id); strings.Join(found.EventTypes, " ") != "event.*" || len(found.Feeds) != 1 {
		t.Errorf("an old form overwrote it: %+v", found)
	}
	change["seen"], change["scope"] = []string{again.seenBy(t)}, []string{"feed_type:news"}
	b.submit(t, at+"/edit", change).leadsTo(t, path+"?done=saved#subscriptions")
	found = w.only(t, id)
	assert.True(t, found.ScopeKind == "feed_type" && found.FeedType == "news" && len(found.Feeds) == 0, "it is %+v", found)

	b.get(t, at+"/disable").expect(t, 200, "Nothing is sent for it")
	b.post(t, at+"/disable").leadsTo(t, path+"?done=subscription-off#subscriptions")
	b.get(t, path).expect(t, 200, "switched off", "Switch on")
	b.get(t, at+"/enable").expect(t, 200, "Matching events are sent")
	b.post(t, at+"/enable").leadsTo(t, path+"?done=subscription-on#subscriptions")
	known := must.Get(subscription.Aggregate.Load(t.Context(), w.Store, found.ID))(t)
	out := must.Get(subscription.Aggregate.Execute(t.Context(), w.Store, found.ID, subscription.Deactivate{
		Switches: known.State.Switches,
		Reason:   "a pinned feed was deleted",
		At:       w.now(),
	}, subscription.Options{}))(t)
	w.Await(t, out.Position, subscriptions.ReadModel.Name)
	const off = "no</b>: a pinned feed was deleted" // of the list: the record below it has the reason, too
	b.get(t, path).expect(t, 200, off)
	b.get(t, at+"/enable").expect(t, 200, "It is off because a pinned feed was deleted")
	b.post(t, at+"/enable").leadsTo(t, path+"?done=subscription-on#subscriptions")
	b.get(t, path).expect(t, 200).lacks(t, off)
	elsewhere := w.destination(t, "Other", receiver(t, 204, "")).String()
	b.get(t, strings.Replace(at, id.String(), elsewhere, 1)+"/edit").expect(t, 404, "Not found")
	w.signIn(t, w.scoped(t, "read", "write")).get(t, at+"/edit").expect(t, 200) // it shows no secrets
	b.get(t, at+"/delete").expect(t, 200, "can't be undone")
	b.post(t, at+"/delete").leadsTo(t, path+"?done=unsubscribed#subscriptions")
	b.get(t, at+"/edit").expect(t, 404, "Not found")
}
