package publications_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
)

var (
	org  = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	feed = uuid.MustParse("66666666-6666-4666-8666-666666666666")
	one  = uuid.MustParse("aaaaaaaa-0000-4000-8000-000000000001")
	two  = uuid.MustParse("bbbbbbbb-0000-4000-8000-000000000002")
	noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func TestRows(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, publications.ReadModel)
	pool := log.Database
	data := `{"z":1.50,"a":{"b":1e3},"text":"ü \u0000 \u00fc","z2":[]}` // neither sorted nor normalised
	projecttest.Stream(log, publication.Aggregate, one, noon.Add(time.Second))(publication.Published{
		Type:     "news.item.added",
		Source:   "https://example.org/feeds/city",
		Subject:  "item/1",
		Time:     noon,
		FeedType: "news",
		FeedID:   feed,
		Data:     []byte(data),
	})
	projecttest.Stream(log, publication.Aggregate, two, noon.Add(time.Second))(publication.Published{
		Organization: org,
		Type:         "research.status.changed",
		Source:       "https://example.org/research",
		Time:         noon,
		Data:         []byte(`{}`),
	})
	log.Project()

	got := log.Dump("(SELECT id, organization, type, source, subject, time, feed_type, feed_id, published_at " +
		"FROM publications.publications)")
	_, got, _ = strings.Cut(got, "\n")
	want := `{"id": "aaaaaaaa-0000-4000-8000-000000000001", "time": "2026-11-21T12:00:00+00:00", ` +
		`"type": "news.item.added", ` +
		`"source": "https://example.org/feeds/city", "feed_id": "66666666-6666-4666-8666-666666666666", ` +
		`"subject": "item/1", "feed_type": "news", ` +
		`"organization": null, "published_at": "2026-11-21T12:00:01+00:00"}
{"id": "bbbbbbbb-0000-4000-8000-000000000002", "time": "2026-11-21T12:00:00+00:00", ` +
		`"type": "research.status.changed", ` +
		`"source": "https://example.org/research", "feed_id": null, "subject": null, "feed_type": null, ` +
		`"organization": "11111111-1111-4111-8111-111111111111", "published_at": "2026-11-21T12:00:01+00:00"}
`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
	// The bytes are those of the stored event, and nothing between here and there may touch them.
	event, err := publication.Events.Decode(&log.Events()[0])
	if err != nil {
		t.Fatal(err)
	}
	var stored []byte
	if err := pool.QueryRow(t.Context(), "SELECT data FROM publications.publications WHERE id = $1", one).
		Scan(&stored); err != nil {
		t.Fatal(err)
	}
	published, ok := event.(publication.Published)
	if !ok {
		t.Fatalf("decoded %T", event)
	}
	if diff := cmp.Diff(string(published.Data), string(stored)); diff != "" {
		t.Errorf("data (-published +stored):\n%s", diff)
	}
	if !strings.Contains(string(stored), `"z":1.50,"a":{"b":1e3}`) {
		t.Errorf("data was rewritten: %s", stored)
	}
}

func TestUnknownEventStops(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, publications.ReadModel)
	err := log.ProjectError(publications.ReadModel, eventstore.Recorded{
		Stream: "publication-" + one.String(),
		Type:   "publication.retracted.v1",
		Data:   []byte("{}"),
	})
	if !errors.Is(err, eventstore.ErrUndecodable) {
		t.Errorf("error = %v, want one that is ErrUndecodable", err)
	}
}

// BenchmarkRebuild applies events with 400 bytes of data.
func BenchmarkRebuild(b *testing.B) {
	const size = 20_000
	log := projecttest.New(b, publications.ReadModel)
	data := []byte(`{"title":"` + strings.Repeat("x", 388) + `"}`)
	for i := range size {
		at := noon.Add(time.Duration(i) * time.Millisecond)
		projecttest.Stream(log, publication.Aggregate, uuid.New(), at)(publication.Published{
			Organization: org,
			Type:         "news.item.added",
			Source:       "https://example.org/feeds/city",
			Subject:      "item/1",
			Time:         at,
			FeedType:     "news",
			FeedID:       feed,
			Data:         data,
		})
	}
	for b.Loop() {
		log.ProjectInBatches(publications.ReadModel, projections.MaxBatch)
	}
	b.ReportMetric(size*float64(b.N)/b.Elapsed().Seconds(), "events/s")
}
