package console_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/subscription"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/audit"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/subscriptions"
)

func (w *world) by(organization uuid.UUID) command.Caller {
	return command.Caller{Organization: organization, Actor: "key:test", RequestID: uuid.New()}
}

// subscribe subscribes a destination to a pattern of types.
func (w *world) subscribe(t testing.TB, to uuid.UUID, pattern string) uuid.UUID {
	t.Helper()
	made := must.Get(w.Commands.CreateSubscription(t.Context(), w.by(w.org), command.CreateSubscription{
		Destination: to, Settings: subscription.Settings{EventTypes: []string{pattern}, ScopeKind: "all"},
	}))(t)
	w.Await(t, made.Position, subscriptions.ReadModel.Name, audit.ReadModel.Name, dispatching.Name)
	return made.ID
}

// switches enables or disables a destination.
func (w *world) switches(t *testing.T, id uuid.UUID, on bool) {
	t.Helper()
	in := command.ReviseDestination{ID: id, Enabled: &on}
	out := must.Get(w.Commands.ReviseDestination(t.Context(), w.by(w.org), in))(t)
	w.Await(t, out.Position, destinations.ReadModel.Name, audit.ReadModel.Name, dispatching.Name)
}

// TestRecipients: an event's page shows who got it, who did not, and why.
func TestRecipients(t *testing.T) {
	w := open(t)
	made := func(name string) uuid.UUID { return w.destination(t, name, receiver(t, 204, "")) }
	got, disabled, other := made("Got it"), made("Was disabled"), made("Wants others")
	made("Wants nothing")
	gone, changed, off := made("Is gone"), made("Changed its mind"), made("Switched off")
	w.subscribe(t, got, "*")
	w.subscribe(t, disabled, "*")
	w.subscribe(t, other, "event.*")
	w.subscribe(t, gone, "*")
	silent := w.subscribe(t, off, "*")
	no := false
	quiet := must.Get(w.Commands.ReviseSubscription(t.Context(), w.by(w.org), command.ReviseSubscription{
		Destination: off,
		ID:          silent,
		Active:      &no,
	}))(t)
	w.Await(t, quiet.Position, subscriptions.ReadModel.Name, dispatching.Name)
	w.switches(t, disabled, false)
	event := w.announce(t, command.Publish{Organization: w.org, Subject: "item/7"})
	w.subscribe(t, changed, "news.*")
	w.subscribe(t, made("Came later"), "*")
	deleted := must.Get(w.Commands.DeleteDestination(t.Context(), w.by(w.org), command.DeleteDestination{ID: gone}))(t)
	w.Await(t, deleted.Position, destinations.ReadModel.Name, audit.ReadModel.Name, deliveries.ReadModel.Name,
		subscriptions.ReadModel.Name)

	b := w.signIn(t, w.key)
	path := "/console/events/" + event.String()
	shown := b.get(t, path).expect(t, 200, "news.item.added", "item/7", "Concert in the park", "All 8", "Waiting 1",
		"No delivery 7")
	for name, why := range map[string]string{
		"Got it": "waiting", "Was disabled": "was disabled when it was published",
		"Wants others":  "None of its subscriptions matches",
		"Wants nothing": "It has no subscription", "Is gone": "The destination was deleted on",
		"Changed its mind": "A subscription matches it, but was created or changed later",
		"Switched off":     "The matching subscription is inactive",
		"Came later":       "The destination was created later",
	} {
		_, row, _ := strings.Cut(shown.body, "<bdi>"+name)
		row, _, _ = strings.Cut(row, "</tr>")
		assert.True(t, strings.Contains(row, why), "%s: not %q in\n%s", name, why, row)
	}
	b.get(t, path+"?who=waiting").expect(t, 200, "Got it").lacks(t, "Was disabled")
	b.get(t, path+"?who=none").expect(t, 200, "Was disabled").lacks(t, "<bdi>Got it")
	b.get(t, path+"?who=me").expect(t, 400, "one of waiting, retrying, delivering, succeeded")
}

// TestEvents_visible: an organization sees events of its own feeds, of feeds shared with it, and its own without a
// feed.
func TestEvents_visible(t *testing.T) {
	w := open(t)
	library, libraryKey := w.Organization(t, "Library")
	feed := w.NewsFeed(t, library, "Library news")
	own := w.announce(t, command.Publish{Organization: w.org, Subject: "item/own"})
	second := w.announce(t, command.Publish{
		Organization: w.org,
		Type:         "news.item.updated",
		Subject:      "check/1",
		Time:         time.Now().Add(-48 * time.Hour),
	})
	hook := w.destination(t, "Hook", receiver(t, 204, ""))
	w.subscribe(t, hook, "*")
	theirs := w.announce(t, command.Publish{FeedType: "news", FeedID: feed, Subject: "item/theirs"})

	b := w.signIn(t, w.key)
	has := func(query string, want ...uuid.UUID) {
		t.Helper()
		p := b.get(t, "/console/events"+query).expect(t, 200)
		for name, id := range map[string]uuid.UUID{"own": own, "second": second, "theirs": theirs} {
			found, wanted := strings.Contains(p.body, id.String()+`"><time`), false
			for _, w := range want {
				wanted = wanted || w == id
			}
			assert.Equal(t, found, wanted, "%s: %s is found", query, name)
		}
	}
	has("", own, second)
	has("?q="+own.String(), own)
	has("?q=item%2Fown", own)
	has("?q=item%2Ftheirs")
	has("?q=" + theirs.String())
	has("?type=news.item.updated", second)
	has("?since="+time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04"), own)
	has("?until="+time.Now().Add(-time.Hour).UTC().Format("2006-01-02T15:04"), second)
	for query, says := range map[string]string{"?type=*x": "exact type", "?feed=x": "id of a feed",
		"?feed=" + uuid.Nil.String(): "id of a feed", "?since=x": "date and time",
		"?before=x": "from a link", "?q=%00": "without NUL"} {
		b.get(t, "/console/events"+query).expect(t, 400, says)
	}
	w.signIn(t, libraryKey).get(t, "/console/events?q="+theirs.String()).expect(t, 200, "Library news", theirs.String())

	w.Share(t, "news", feed, w.org)
	has("", own, second, theirs)
	has("?feed="+feed.String(), theirs)
	b.get(t, "/console/events/"+theirs.String()).expect(t, 200, "The feed was shared with this organization later",
		"Library news")
	operator := w.operator(t)
	operator.get(t, "/console/organizations/"+library.String()+"/events/"+theirs.String()).expect(t, 200,
		"There was no destination at that time")
	operator.get(t, "/console/organizations/"+library.String()+"/events/"+own.String()).expect(t, 404, "Not found")
}

// TestLists_continueAfterPage: the next page continues after the last row, whatever is added meanwhile.
func TestLists_continueAfterPage(t *testing.T) {
	w := open(t)
	hooks := []uuid.UUID{w.destination(t, "One", receiver(t, 204, "")), w.destination(t, "Two", receiver(t, 204, ""))}
	for _, hook := range hooks {
		w.subscribe(t, hook, "*")
	}
	const size = 60
	base := time.Now().Add(-time.Hour)
	for i := range size {
		event := command.Publish{
			ID:           uuid.New(),
			Type:         "news.item.added",
			Source:       "/feeds/x",
			Data:         []byte(`{"id":"n","title":"x"}`),
			Organization: w.org,
			Time:         base.Add(time.Duration(i) * time.Second),
		}
		must.Get(w.Commands.Publish(t.Context(), apitest.Operator, event))(t)
	}
	w.announce(t, command.Publish{Organization: w.org, Time: base.Add(size * time.Second)})
	b := w.signIn(t, w.key)
	for path, want := range map[string]int{"/console/events": size + 1, "/console/deliveries": 2 * (size + 1),
		"/console/deliveries?type=news.*&status=pending": 2 * (size + 1)} {
		seen, pages := map[string]bool{}, 0
		for next := path; next != "" && pages < 10; pages++ {
			p := b.get(t, next).expect(t, 200)
			next = ""
			for _, found := range links.FindAllStringSubmatch(p.body, -1) {
				link := strings.ReplaceAll(found[1], "&amp;", "&")
				switch {
				case strings.Contains(link, "before="):
					next = link
				case ids.MatchString(link) && !strings.Contains(link, "/destinations/"):
					assert.True(t, !seen[link], "%s: %s is there twice", path, link)
					seen[link] = true
				}
			}
			if pages > 0 && !strings.Contains(p.body, "← Newest") {
				t.Errorf("%s: page %d does not lead back", path, pages)
			}
		}
		assert.Equal(t, len(seen), want, "%s … on %d pages", path, pages)
	}
	b.get(t, "/console/deliveries?status=failed").expect(t, 200, "There are none.")
	b.get(t, "/console/deliveries?status=lost").expect(t, 400, "Status must be one or several of")
	_, other := w.Organization(t, "Library")
	w.signIn(t, other).get(t, "/console/deliveries").expect(t, 200, "There are none.")
}
