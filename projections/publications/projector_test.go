package publications_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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

	log.Holds("(SELECT id, organization, type, source, subject, time, feed_type, feed_id, published_at FROM "+
		"publications.publications)",
		`{"id": "aaaaaaaa-0000-4000-8000-000000000001", "time": "2026-11-21T12:00:00+00:00", `+
			`"type": "news.item.added", `+
			`"source": "https://example.org/feeds/city", "feed_id": "66666666-6666-4666-8666-666666666666", `+
			`"subject": "item/1", "feed_type": "news", `+
			`"organization": null, "published_at": "2026-11-21T12:00:01+00:00"}`,
		`{"id": "bbbbbbbb-0000-4000-8000-000000000002", "time": "2026-11-21T12:00:00+00:00", `+
			`"type": "research.status.changed", `+
			`"source": "https://example.org/research", "feed_id": null, "subject": null, "feed_type": null, `+
			`"organization": "11111111-1111-4111-8111-111111111111", "published_at": "2026-11-21T12:00:01+00:00"}`)
	// The bytes are those of the stored event, and nothing between here and there may touch them.
	event := must.Get(publication.Events.Decode(&log.Events()[0]))(t)
	var stored []byte
	must.OK(t, log.Database.QueryRow(t.Context(), "SELECT data FROM publications.publications WHERE id = $1", one).
		Scan(&stored))
	published, ok := event.(publication.Published)
	must.True(t, ok, "decoded %T", event)
	assert.Same(t, string(stored), string(published.Data))
	assert.True(t, strings.Contains(string(stored), `"z":1.50,"a":{"b":1e3}`), "data was rewritten: %s", stored)
}
