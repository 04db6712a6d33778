package httpapi_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// concert is everything that a source can say of an event which takes place on two days. Those of other tests take
// place elsewhere, so that the curation of feeds does not take them for the same.
func (s *server) concert(title string, start time.Time) happening.Details {
	total, end := 120, start.Add(2*time.Hour)
	instance := happening.DeriveInstanceID(title, "")
	occurrence := func(day int) happening.Occurrence {
		o := happening.Occurrence{
			ID:     happening.DeriveOccurrenceID(instance, day),
			Start:  start.AddDate(0, 0, day),
			Status: happening.Scheduled,
		}
		if day == 0 {
			o.End = &end
		}
		return o
	}
	return happening.Details{
		Title:            title,
		Description:      "<p>Music &amp; more</p>",
		ShortDescription: "Music",
		Time: happening.Time{
			TemporalPattern: happening.Singular,
			Timezone:        "Europe/Rome",
			DisplayText:     "Saturday evening",
		},
		Location: &happening.Location{
			Venue:          &happening.Venue{Name: "Town hall", Address: "Market 1"},
			Coordinates:    &happening.Coordinates{Lat: float64(s.town % 80), Lng: float64(s.town / 80 % 100)},
			Online:         &happening.Online{Platform: "Stream", URL: "https://example.org/live"},
			DisplayAddress: "Town hall, Market 1",
		},
		Capacity:         &happening.Capacity{Total: &total},
		Organizer:        &happening.Organizer{Name: "Town", URL: "https://example.org", Contact: "info@example.org"},
		PrimaryImage:     "https://example.org/1.png",
		SupportingImages: []string{"https://example.org/2.png"},
		PrimaryURL:       "https://example.org/concert",
		URLs:             []string{"https://example.org/concert"},
		GeoLocations: []happening.GeoLocation{{
			ID:           happening.DeriveGeoLocationID("town hall"),
			Description:  "Town hall",
			RelationType: happening.AtLocation,
			Score:        100,
		}},
		Instances: []happening.Instance{{
			ID:          instance,
			Status:      happening.Scheduled,
			Occurrences: []happening.Occurrence{occurrence(0), occurrence(1)},
		}},
	}
}

// happening is the id of one of the test's own.
func (s *server) happening(title string) uuid.UUID { return happening.DeriveID(s.org.String() + title) }

// observe records what a source shows.
func (s *server) observe(t *testing.T, source uuid.UUID, details happening.Details) {
	t.Helper()
	must.Get(happening.Aggregate.Execute(t.Context(), s.Store, s.happening(details.Title), happening.Observe{
		SourceID: source,
		Key:      details.Title,
		Details:  details,
		Source:   happening.Block{Type: "site", URL: "https://example.org/events"},
		At:       time.Now().UTC().Truncate(time.Microsecond),
	}, happening.Options{Metadata: eventstore.Metadata{Actor: "collector"}}))(t)
}

type itemsPage struct {
	Items []struct {
		ID         string         `json:"id"`
		Title      string         `json:"title"`
		Occurrence occurrenceView `json:"occurrence"`
		Source     map[string]any `json:"source"`
	} `json:"items"`
	Total      int `json:"total"`
	Pagination struct {
		Limit   int  `json:"limit"`
		Offset  int  `json:"offset"`
		HasMore bool `json:"hasMore"`
	} `json:"pagination"`
}

func (p itemsPage) titles() []string {
	titles := make([]string, len(p.Items))
	for i, item := range p.Items {
		titles[i] = item.Title
	}
	return titles
}

func TestFeedbackIsAdditive(t *testing.T) {
	s := serve(t)
	w := s.filledFeed(t)
	reader := s.share(t, w.feed)
	path, id := feedsPath+"/"+w.feed, w.item
	longest := strings.Repeat("é", 5000)
	given := map[string]string{} // comments by id
	for _, in := range []struct{ key, comment string }{{"", "Too loud"}, {"", "Too loud"}, {reader, longest}} {
		data := into[map[string]string](t, 200,
			s.as(in.key).post(t, path+"/items/"+id+"/feedback", `{"rating":"negative","comment":"`+in.comment+`"}`))
		assert.True(t, len(data) == 1 && uuid.Validate(data["id"]) == nil, "data = %v", data)
		given[data["id"]] = in.comment
	}
	recorded := map[string]string{}
	for e, err := range s.Store.Read(t.Context(), "item-"+id, 1) {
		must.OK(t, err)
		f := must.Get(item.Events.Decode(&e))(t).(item.FeedbackGiven)
		recorded[f.FeedbackID.String()] = f.Comment
		assert.True(t, f.Rating == "negative" && (f.Organization == s.org) == (f.Comment != longest), "%+v", f)
	}
	assert.Alike(t, recorded, given, "recorded")
	assert.Equal(t, len(given), 3, "the same again is another")
}

func TestFeedbackIsRefused(t *testing.T) {
	s := serve(t)
	w := s.filledFeed(t)
	_, empty := s.eventFeed(t)
	path, id := feedsPath+"/"+w.feed, w.item
	for body, want := range map[string][2]string{
		`{}`:                 {"rating", "is required"},
		`{"rating":"great"}`: {"rating", "must be one of positive, negative, neutral"},
		`{"rating":5}`:       {"rating", "must be a string, not a number"},
		`{"rating":"neutral","comment":"` + strings.Repeat("é", 5001) + `"}`: {"comment",
			"must have at most 5000 characters"},
		`{"rating":"neutral","comment":"\u0000"}`: {"comment", "must not contain"},
		`{"rating":"neutral","stars":5}`:          {"stars", "is not a known field"},
	} {
		s.post(t, path+"/items/"+id+"/feedback", body).blames(t, want[0], want[1])
	}
	for at, field := range map[string]string{
		path + "/items/7/feedback": "itemId", feedsPath + "/7/items/" + id + "/feedback": "feedId",
	} {
		s.post(t, at, `{"rating":"neutral"}`).refused(t, 400, "BAD_REQUEST", field+" must be a UUID")
	}
	for _, of := range []string{path + "/items/" + uuid.NewString(), empty + "/items/" + id} {
		s.post(t, of+"/feedback", `{"rating":"neutral"}`).refused(t, 404, "NOT_FOUND", "item not found")
	}
	assert.Equal(t, len(s.EventTypes(t, "item-"+id)), 1, "refused requests recorded")
}

// bound is an end of a range as a caller may give it, and the instant that it stands for.
type bound struct {
	text string
	at   time.Time
}

// someBound is near the limits more often than not.
func someBound(now time.Time) *rapid.Generator[bound] {
	return rapid.Custom(func(t *rapid.T) bound {
		today := now.Truncate(24 * time.Hour)
		around := rapid.SampledFrom([]time.Time{now, today.AddDate(0, 0, -7), today.AddDate(0, 0, 30),
			today.AddDate(0, 0, 31)}).Draw(t, "around")
		at := around.Add(time.Duration(rapid.IntRange(-50, 50).Draw(t, "hours")) * time.Hour).
			Add(time.Duration(rapid.IntRange(-1, 1).Draw(t, "seconds")) * time.Second).Truncate(time.Second)
		zone := time.FixedZone("", rapid.IntRange(-12, 14).Draw(t, "zone")*3600)
		switch rapid.IntRange(0, 3).Draw(t, "form") {
		case 0:
			at = at.Truncate(24 * time.Hour)
			return bound{at.Format(time.DateOnly), at}
		case 1:
			return bound{at.In(zone).Format(time.RFC3339), at}
		case 2:
			return bound{at.Format("2006-01-02T15:04:05"), at}
		}
		return bound{at.Format(time.RFC3339), at}
	})
}

// wantedRange is the interface's rules for the range, written down once more: the range, or the fields that may be
// blamed.
func wantedRange(now time.Time, since, until *bound) (from, to time.Time, blamed []string) {
	today := now.Truncate(24 * time.Hour)
	outside := func(at time.Time) bool {
		return at.Before(today.AddDate(0, 0, -7)) || !at.Before(today.AddDate(0, 0, 31))
	}
	from = now
	if since != nil {
		if from = since.at; outside(from) {
			blamed = append(blamed, "since")
		}
	}
	to = from.AddDate(0, 0, 30)
	if until != nil {
		if to = until.at; outside(to) {
			blamed = append(blamed, "until")
		}
	}
	if blamed == nil && until != nil && !from.Before(to) {
		blamed = []string{"since"}
		if since == nil {
			blamed = []string{"until"}
		}
	}
	if last := today.AddDate(0, 0, 31).Add(-time.Nanosecond); to.After(last) {
		to = last
	}
	return from, to, blamed
}

// Whatever range is asked for, both versions of the list refuse it or show exactly the occurrences in it.
func TestRangeRules(t *testing.T) {
	s := serve(t)
	c := s.clock(t)
	source := s.site(t)
	var starts []time.Time
	for at, end := c.now().UTC().Truncate(24*time.Hour).AddDate(0, 0, -10), c.now().AddDate(0, 0,
		36); at.Before(end); at = at.Add(3 * time.Hour) {
		starts = append(starts, at)
	}
	s.observe(t, source, bare("Often", happening.Scheduled, starts...))
	_, path := s.eventFeed(t)
	s.attach(t, path, source)
	s.items(t, path, 1)
	start := c.now()
	rapid.Check(t, func(r *rapid.T) {
		// Some time on the same day or the next one; cached results of an earlier range must not show.
		c.pass(start.Sub(c.now()) + time.Duration(rapid.IntRange(0, 24*60).Draw(r, "minutes"))*time.Minute)
		now := c.now().UTC()
		var since, until *bound
		q := url.Values{}
		if rapid.Bool().Draw(r, "with since") {
			b := someBound(now).Draw(r, "since")
			since = &b
			q.Set("since", b.text)
		}
		if rapid.Bool().Draw(r, "with until") {
			b := someBound(now).Draw(r, "until")
			if since != nil && rapid.IntRange(0, 4).Draw(r, "empty range") == 0 {
				b = *since
			}
			until = &b
			q.Set("until", b.text)
		}
		from, to, blamed := wantedRange(now, since, until)
		for _, version := range []string{"", "/v0"} {
			got := s.get(t, version+path+"/items?"+q.Encode())
			if blamed != nil {
				if got.status != http.StatusBadRequest {
					r.Fatalf("%s at %s is answered %d %.300s, want 400 for %v", q.Encode(), now, got.status, got.body, blamed)
				}
				got.refused(t, 400, "BAD_REQUEST", "")
				if details := got.problem(t).Error.Details; details == nil || details.Issue == "" || details.Field != blamed[0] {
					r.Fatalf("%s at %s: details %+v, want those of %v", q.Encode(), now, details, blamed[0])
				}
				continue
			}
			if got.status != http.StatusOK {
				r.Fatalf("%s at %s is answered %d %.300s", q.Encode(), now, got.status, got.body)
			}
			var want, shown []time.Time
			for _, at := range starts {
				if !at.Before(from) && !at.After(to) {
					want = append(want, at)
				}
			}
			var page itemsPage
			got.into(t, 200, &page)
			total := 0
			for _, item := range page.Items {
				total += item.Occurrence.Total
				for _, o := range item.Occurrence.InRange {
					shown = append(shown, o.StartDateTime)
				}
			}
			if diff := cmp.Diff(want, shown); diff != "" || total != len(want) || page.Total != len(page.Items) {
				r.Fatalf("%s%s at %s (-want +got):\n%s", version, q.Encode(), now, diff)
			}
		}
	})
}
