package httpapi_test

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// occurrenceView is the occurrence of an item.
type occurrenceView struct {
	Next *struct {
		StartDateTime time.Time `json:"startDateTime"`
	} `json:"nextOccurrence"`
	InRange []struct {
		StartDateTime time.Time `json:"startDateTime"`
		Status        string    `json:"status"`
	} `json:"occurrencesInRange"`
	Total    int `json:"totalOccurrences"`
	Upcoming int `json:"upcomingOccurrences"`
}

// detail holds the fields of one item that tests read.
type detail struct {
	Item struct {
		ID         string           `json:"id"`
		EventID    string           `json:"eventId"`
		Title      string           `json:"title"`
		Occurrence occurrenceView   `json:"occurrence"`
		Source     *happening.Block `json:"source"`
	} `json:"item"`
}

func TestItemHasAllItsOccurrences(t *testing.T) {
	s := serve(t)
	source, soon := s.site(t), tomorrow()
	starts := []time.Time{soon.AddDate(0, 0, -40), soon.AddDate(0, 0, -3), soon, soon.AddDate(0, 0, 2),
		soon.AddDate(0, 2, 0)}
	s.observe(t, source, bare("Series", happening.Scheduled, starts...))
	s.observe(t, source, bare("Past", happening.Scheduled, starts[0]))
	s.observe(t, source, bare("Cancelled", happening.Cancelled, soon))
	_, path := s.eventFeed(t)
	s.attach(t, path, source)
	ids := s.items(t, path, 2) // the past one is out of the list's reach
	feedID := uuid.MustParse(path[len(feedsPath)+1:])
	past := item.ID(feedID, s.happening("Past"))
	must.Eventually(t, "the past item is in the feed, too", func() bool {
		return s.get(t, path+"/items/"+past.String()).status == 200
	})

	// no range applies, and no filter
	for _, query := range []string{"", "?since=2001-01-01&until=nonsense&limit=0&status=cancelled"} {
		got := into[detail](t, 200, s.get(t, path+"/items/"+ids["Series"]+query))
		o := got.Item.Occurrence
		var shown []time.Time
		statuses := ""
		for _, occurrence := range o.InRange {
			shown = append(shown, occurrence.StartDateTime)
			statuses += occurrence.Status + " "
		}
		assert.Same(t, shown, starts)
		assert.True(t, statuses == "completed completed scheduled scheduled scheduled " && o.Total == 5 &&
			o.Upcoming == 3, "statuses %s, total %d, upcoming %d", statuses, o.Total, o.Upcoming)
		assert.True(t, o.Next != nil && o.Next.StartDateTime.Equal(soon), "next occurrence %+v, want %s", o.Next, soon)
		assert.True(t, got.Item.ID == ids["Series"] && got.Item.EventID == s.happening("Series").String() &&
			got.Item.Source == nil, "item %+v", got.Item)
	}
	for id, want := range map[string]struct {
		total, upcoming int
		next            bool
	}{past.String(): {1, 0, false}, ids["Cancelled"]: {1, 0, true}} {
		var got detail
		answer := s.get(t, path+"/items/"+id+"?include=source")
		answer.into(t, 200, &got)
		o := got.Item.Occurrence
		assert.True(t, o.Total == want.total && o.Upcoming == want.upcoming && (o.Next != nil) == want.next &&
			!strings.Contains(answer.body, "null,\"occ"), "%s: %+v, want %+v", got.Item.Title, o, want)
		if got.Item.Source == nil || *got.Item.Source != (happening.Block{Type: "site", URL: "https://example.org/events"}) {
			t.Errorf("%s: source %+v", got.Item.Title, got.Item.Source)
		}
	}
}

// The item is the one of the list, occurrences apart.
func TestItemIsAsListed(t *testing.T) {
	s := serve(t)
	source := s.site(t)
	s.observe(t, source, s.concert("Concert", tomorrow()))
	s.observe(t, source, bare("Bare", happening.Scheduled, tomorrow()))
	made, path := s.eventFeed(t)
	s.attach(t, path, source)
	reader := s.share(t, made.ID)
	ids := s.items(t, path, 2)
	for _, query := range []string{"", "?include=source"} {
		list := into[page[map[string]any]](t, 200, s.get(t, path+"/items"+query))
		for _, want := range list.Items {
			var got struct {
				Item map[string]any `json:"item"`
			}
			s.as(reader).get(t, path+"/items/"+ids[want["title"].(string)]+query).into(t, 200, &got)
			if diff := cmp.Diff(want, got.Item); diff != "" { // both start within the list's range
				t.Errorf("%s (-listed +alone):\n%s", want["title"], diff)
			}
			for member, value := range got.Item {
				if value == nil || value == "" && member != "description" {
					t.Errorf("%s has %s = %#v, which should be left out", want["title"], member, value)
				}
			}
			_, legacy := got.Item["sourceType"]
			_, scored := got.Item["relevanceScore"]
			assert.True(t, !legacy && scored, "sourceType at the root: %t, relevanceScore: %t", legacy, scored)
		}
	}
}

func TestItemIsRefused(t *testing.T) {
	s := serve(t)
	w := s.filledFeed(t)
	_, empty := s.eventFeed(t)
	path, id := feedsPath+"/"+w.feed, w.item
	for at, field := range map[string]string{
		path + "/items/" + id + "?include=source,owner":          "include",
		path + "/items/" + id + "?include=":                      "include",
		path + "/items/" + id + "?include=source&include=source": "include",
		path + "/items/7": "itemId",
		path + "/items/" + strings.ReplaceAll(id, "-", ""): "itemId",
		path + "/items/" + url.PathEscape("{"+id+"}"):      "itemId",
		feedsPath + "/7/items/" + id:                       "feedId",
	} {
		s.get(t, at).blames(t, field, field)
	}
	for _, of := range []string{path + "/items/" + uuid.NewString(), empty + "/items/" + id} {
		s.get(t, of).refused(t, 404, "NOT_FOUND", "item not found")
	}
	s.get(t, path+"/items/"+strings.ToUpper(id)+"?include=%20source&other=ignored").into(t, 200, new(any))
}

// The legacy list is the current one in another shape: sourceType at the root, null for unknown values, no source and
// no relevanceScore.
func TestLegacyListDiffersInShapeOnly(t *testing.T) {
	s := serve(t)
	source, soon := s.site(t), tomorrow()
	s.observe(t, source, s.concert("Concert", soon.AddDate(0, 0, 1)))
	s.observe(t, source, bare("Bare", happening.Cancelled, soon, soon.AddDate(0, 0, 3)))
	s.observe(t, source, bare("Yesterday", happening.Scheduled, soon.AddDate(0, 0, -2)))
	made, path := s.eventFeed(t)
	s.attach(t, path, source)
	s.items(t, path, 3)
	s.observe(t, source, bare("Newest", happening.Scheduled, soon.AddDate(0, 0, 2)))
	s.items(t, path, 4)
	legacy := func(in map[string]any) map[string]any {
		in["sourceType"] = "site"
		delete(in, "relevanceScore")
		for _, member := range []string{"publishedAt", "shortDescription", "primaryImage", "primaryUrl", "time", "location",
			"capacity", "organizer"} {
			if _, known := in[member]; !known {
				in[member] = nil
			}
		}
		occurrence := in["occurrence"].(map[string]any)
		if _, known := occurrence["nextOccurrence"]; !known {
			occurrence["nextOccurrence"] = nil
		}
		return in
	}
	week := url.QueryEscape(soon.AddDate(0, 0, -6).Format(time.RFC3339))
	for query, titles := range map[string]string{
		"":                                     "Bare Concert Newest",
		"?since=" + week:                       "Yesterday Bare Concert Newest",
		"?since=" + week + "&limit=1&offset=1": "Bare +",
		"?status=cancelled":                    "Bare",
		"?status=completed&since=" + week:      "Yesterday",
		"?orderBy=created&limit=1":             "Newest +",
		"?until=" + url.QueryEscape(soon.Format(time.RFC3339)): "Bare",
		"?limit=1":  "Bare +",
		"?offset=7": "",
	} {
		page := into[itemsPage](t, 200, s.get(t, path+"/items"+query))
		shown := page.titles()
		if page.Pagination.HasMore {
			shown = append(shown, "+")
		}
		assert.Equal(t, strings.Join(shown, " "), titles, "%s", query)
		var current, old map[string]any
		s.get(t, path+"/items"+query).into(t, 200, &current)
		answer := s.get(t, "/v0"+path+"/items"+query)
		answer.into(t, 200, &old)
		items := current["items"].([]any)
		for i := range items {
			items[i] = legacy(items[i].(map[string]any))
		}
		assert.Alike(t, old, current, "%s", query)
	}
	plain, more := s.get(t, "/v0"+path+"/items?since="+week),
		s.get(t, "/v0"+path+"/items?include=source&include=owner&since="+week)
	assert.True(t, more.status == 200 && plain.body == more.body,
		"include changes the legacy list: %d %s", more.status, more.body)
	_, stranger := s.Organization(t, "Stranger")
	s.as(stranger).get(t, "/v0"+path+"/items").refused(t, 404, "NOT_FOUND", "feed not found")
	s.as(s.share(t, made.ID)).get(t, "/v0"+path+"/items").into(t, 200, new(any))
}
