package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore"
	"carillon/projections/items"
	"carillon/projections/sources"
	"carillon/query"
)

// TestHostileFeedsAreShownAsText: names of feeds, and everything that sources say about an event, are text; an
// address that would run a script is not a link.
func TestHostileFeedsAreShownAsText(t *testing.T) {
	s := newScene(t)
	b := s.signIn(t, s.key)
	feed := "/console/feeds/" + s.names["feed"]
	texts := hostile()
	var last eventstore.Position
	recorded := 0
	for i, text := range texts {
		b.post(t, feed+"/edit", "name", text, "description", text, "enabled", "yes").asked().harmless(t,
			fmt.Sprintf("%d: a feed that is changed", i))
		b.get(t, feed).expect(t, 200).asked().harmless(t, fmt.Sprintf("%d: a feed", i))
		b.get(t, "/console/feeds").expect(t, 200).asked().harmless(t, fmt.Sprintf("%d: all feeds", i))
		b.post(t, feed+"/sources/new", "source", text, "type", text).expect(t, 400).asked().harmless(t,
			fmt.Sprintf("%d: a source that is attached", i))
		b.post(t, feed+"/items/"+s.names["item"]+"/feedback", "rating", text, "comment", text).asked().harmless(t,
			fmt.Sprintf("%d: feedback", i))
		if at, err := s.enemy(t, i, text); err == nil {
			last, recorded = at, recorded+1
		}
	}
	if recorded < len(texts)/2 {
		t.Fatalf("%d of %d events were recorded", recorded, len(texts))
	}
	s.Await(t, last, items.ReadModel.Name)
	shown := map[string]bool{}
	apitest.Eventually(t, "the items are in the feed", func() bool {
		for number := 1; ; number++ {
			page := b.get(t, fmt.Sprintf("%s?page=%d", feed, number)).expect(t, 200)
			page.asked().harmless(t, "the feed")
			for _, found := range links.FindAllStringSubmatch(page.body, -1) {
				if at := found[1]; strings.Contains(at, "/items/") && !strings.HasSuffix(at, "/feedback") {
					shown[at] = true
				}
			}
			if !strings.Contains(page.body, `rel="next" href="`+feed+"?page=") {
				return len(shown) >= recorded
			}
		}
	})
	for at := range shown {
		b.get(t, at).expect(t, 200).asked().harmless(t, at)
	}
}

// enemy records an event of a source with the same hostile text in all fields.
func (s *scene) enemy(t *testing.T, number int, text string) (eventstore.Position, error) {
	t.Helper()
	text = strings.ReplaceAll(text[:min(len(text), 20_000)], "\u0000", "")
	now := time.Now().UTC().Truncate(time.Microsecond)
	key := fmt.Sprintf("%s: enemy %d", s.org, number)
	instance := happening.DeriveInstanceID(key, "")
	out, err := happening.Aggregate.Execute(t.Context(), s.Store, happening.DeriveID(key), happening.Observe{
		SourceID: s.attached(t),
		Key:      key,
		At:       now,
		Source:   happening.Block{Type: "site", URL: text},
		Details: happening.Details{
			Title:            text,
			ShortDescription: text,
			Description:      text,
			PrimaryImage:     text,
			PrimaryURL:       text,
			Location:         &happening.Location{DisplayAddress: text, Venue: &happening.Venue{Name: text, Address: text}},
			Organizer:        &happening.Organizer{Name: text},
			Instances: []happening.Instance{{ID: instance, Status: happening.Scheduled, Occurrences: []happening.Occurrence{
				{
					ID:     happening.DeriveOccurrenceID(instance, 0),
					Start:  time.Date(now.Year(), now.Month(), 1+number%27, 19, 0, 0, 0, time.UTC),
					Status: happening.Scheduled,
				},
			}}},
		},
	}, happening.Options{Metadata: eventstore.Metadata{Actor: "collector"}})
	return out.Position, err
}

// attached returns the source of the scene's feed.
func (s *scene) attached(t *testing.T) uuid.UUID {
	t.Helper()
	all, err := s.Queries.FeedSources(t.Context(), s.org, mustID(t, s.names["feed"]))
	if err != nil || len(all) != 1 {
		t.Fatal(all, err)
	}
	return all[0].Source
}

// TestHostileSourcesAreShownAsText: the trial of a hostile page, and the names of sources, are text.
func TestHostileSourcesAreShownAsText(t *testing.T) {
	w := open(t)
	texts := hostile()
	site := httptest.NewServer(http.HandlerFunc(func(writer http.ResponseWriter, r *http.Request) {
		var number int
		if _, err := fmt.Sscanf(r.URL.Path, "/%d", &number); err != nil || number >= len(texts) {
			http.NotFound(writer, r)
			return
		}
		text := strings.ToValidUTF8(texts[number][:min(len(texts[number]), 20_000)], "")
		event, err := json.Marshal(map[string]any{
			"@type": "Event", "name": "x " + text, "description": text, "image": text, "url": text,
			"startDate": "2030-06-05T20:00:00Z",
			"location":  map[string]any{"@type": "Place", "name": text, "address": text},
			"organizer": map[string]any{"name": text, "url": text},
		})
		if err != nil {
			panic(err)
		}
		writer.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = fmt.Fprintf(writer, `<title>%s</title><script type="application/ld+json">%s</script><p>%s</p>`,
			text, strings.ReplaceAll(string(event), "</", `<\/`), text)
	}))
	t.Cleanup(site.Close)
	w.collectable = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	w.admin = w.operatorsConsole(t, adminToken)
	operator := w.operator(t)
	read := 0
	for i, text := range texts {
		tried := operator.post(t, "/console/sources/try", "where", fmt.Sprintf("%s/%d", site.URL, i), "type", "site",
			"timezone", "").asked()
		tried.harmless(t, fmt.Sprintf("%d: a page that is tried", i))
		if strings.Contains(tried.body, "1 event on 1 page") {
			read++
		}
		operator.post(t, "/console/sources/new", "where", text, "type", "site", "timezone",
			text[:min(len(text), 500)]).asked().harmless(t, fmt.Sprintf("%d: a source that is added", i))
		address := "https://example.org/" + text[:min(len(text), 1000)]
		made, err := w.Commands.RegisterSource(t.Context(), apitest.Operator, command.RegisterSource{
			Type: "site",
			URL:  address,
		})
		if err != nil {
			continue
		}
		w.Await(t, made.Position, sources.ReadModel.Name)
		operator.get(t, "/console/sources/"+made.ID.String()).expect(t, 200).asked().
			harmless(t, fmt.Sprintf("%d: a source", i))
	}
	if read < len(texts)/2 {
		t.Errorf("%d of %d pages showed an event", read, len(texts))
	}
	for page := 1; page <= 2; page++ {
		operator.get(t, fmt.Sprintf("/console/sources?page=%d", page)).expect(t, 200).asked().harmless(t,
			"the list of sources")
	}
	if _, total, err := w.Queries.SourcePage(t.Context(), query.SourceFilter{}, 10, 0); err != nil ||
		total < len(texts)/2 {
		t.Errorf("%d sources were registered, %v", total, err)
	}
}
