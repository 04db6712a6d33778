package httpapi_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/wire"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

// connections ask at the same time.
const connections = 16

// BenchmarkItemLists reads pages of 20 through HTTP, from a feed of a thousand items and from one of a hundred thousand
// with a million occurrences, half of the items in the default range. bare is a handler that runs one indexed query for
// the items of the first page, and writes the bytes that the list answered with. Processor time is of server and client
// together.
func BenchmarkItemLists(b *testing.B) {
	parts := apitest.Start(b)
	api := must.Get(httpapi.New(httpapi.Dependencies{
		Commands: parts.Commands,
		Queries:  parts.Queries,
		Keys:     parts.Queries,
		Readers:  wire.Readers{Await: parts.Progress.Await},
		Now:      time.Now,
		Log:      slog.New(slog.DiscardHandler),
		Metrics:  prometheus.NewRegistry(),
	}))(b)
	org, key := parts.Organization(b, "Town hall")
	log := projecttest.On(b, parts.Pool, feeds.ReadModel, items.ReadModel)
	small, large := largeFeed(b, log, org, 1_000), largeFeed(b, log, org, 100_000)
	must.Get(parts.Pool.Exec(b.Context(), "VACUUM ANALYZE items.items, items.occurrences, feeds.feeds"))(b)
	listed := httptest.NewServer(api)
	b.Cleanup(listed.Close)
	path := func(feed uuid.UUID, query string) string {
		return fmt.Sprintf("%s/feeds/events/%s/items?limit=20%s", listed.URL, feed, query)
	}
	var answer bytes.Buffer
	must.OK(b, get(http.DefaultClient, path(large, ""), key, &answer))
	bare := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		rows, err := parts.Pool.Query(r.Context(), `SELECT i.current FROM items.occurrences o JOIN items.items i
			ON i.id = o.item_id
			WHERE o.feed_id = $1 AND o.starts_at >= $2 AND o.previous < $2 ORDER BY o.starts_at, o.item_id LIMIT 20`, large,
			time.Now())
		if err != nil {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		defer rows.Close()
		for rows.Next() {
			var body pgtype.DriverBytes
			if rows.Scan(&body) != nil {
				w.WriteHeader(http.StatusInternalServerError)
				return
			}
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", strconv.Itoa(answer.Len()))
		_, _ = w.Write(answer.Bytes())
	}))
	b.Cleanup(bare.Close)
	last := func(query string) string {
		return fmt.Sprintf("%s&offset=%d", query, total(b, listed.URL, key, large, query)-20)
	}
	yesterday := "&since=" + time.Now().Add(-24*time.Hour).UTC().Format(time.RFC3339)
	lists := []struct{ name, url string }{
		{"bare", bare.URL},
		{"of 1000 items", path(small, "")},
		{"first page", path(large, "")},
		{"last page", path(large, last(""))},
		{"by created", path(large, "&orderBy=created")},
		{"by created, last page", path(large, last("&orderBy=created"))},
		{"legacy", strings.Replace(path(large, ""), "/feeds/", "/v0/feeds/", 1)},
	}
	for _, status := range []string{"scheduled", "cancelled", "postponed", "rescheduled", "completed"} {
		query, name := "&status="+status, status
		switch status {
		case "rescheduled":
			name += " (no item)"
		case "completed":
			query += yesterday
		}
		lists = append(lists, struct{ name, url string }{name, path(large, query)},
			struct{ name, url string }{name + " by created", path(large, query+"&orderBy=created")})
	}
	usage := pgtest.UsageOf(b.Context(), b, parts.Pool)
	for _, list := range lists {
		b.Run(list.name, func(b *testing.B) { ask(b, usage, list.url, key) })
	}
}

// ask asks again and again on all connections.
func ask(b *testing.B, usage pgtest.Usage, url, key string) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: connections}}
	defer client.CloseIdleConnections()
	if err := get(client, url, key, io.Discard); err != nil { // caches filled from here on are part of the measurement
		b.Fatal(err)
	}
	took := make([]time.Duration, b.N)
	var next atomic.Int64
	var asking sync.WaitGroup
	own, its := usage.Process(), usage.Postgres()
	b.ResetTimer()
	for range connections {
		asking.Go(func() {
			for i := next.Add(1) - 1; i < int64(b.N); i = next.Add(1) - 1 {
				began := time.Now()
				if err := get(client, url, key, io.Discard); err != nil {
					b.Error(err)
					return
				}
				took[i] = time.Since(began)
			}
		})
	}
	asking.Wait()
	b.StopTimer()
	b.ReportMetric(float64((usage.Process()-own).Microseconds())/float64(b.N), "cpu-µs")
	b.ReportMetric(float64((usage.Postgres()-its).Microseconds())/float64(b.N), "postgres-cpu-µs")
	slices.Sort(took)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
	b.ReportMetric(float64(took[b.N*99/100].Microseconds())/1000, "p99-ms")
}

func get(client *http.Client, url, key string, into io.Writer) error {
	request, err := http.NewRequest(http.MethodGet, url, http.NoBody) //nolint:noctx // it ends with the benchmark
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	if _, err := io.Copy(into, response.Body); err != nil || response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %d, %w", url, response.StatusCode, err)
	}
	return nil
}

func total(b *testing.B, base, key string, feed uuid.UUID, query string) (n int) {
	b.Helper()
	var body strings.Builder
	must.OK(b, get(http.DefaultClient, fmt.Sprintf("%s/feeds/events/%s/items?limit=1%s", base, feed, query), key, &body))
	_, rest, _ := strings.Cut(body.String(), `"total":`)
	_, err := fmt.Sscan(rest, &n)
	must.True(b, err == nil && n >= 100, "total %d, %v", n, err)
	return n
}

// largeFeed makes a feed of n items with ten occurrences each, from 30 days ago to 70 days ahead. One in a hundred is
// cancelled, one in a thousand postponed, those at the end of the list.
func largeFeed(b *testing.B, log *projecttest.Log, org uuid.UUID, size int) uuid.UUID {
	b.Helper()
	id, source, now := uuid.New(), uuid.New(), time.Now().UTC().Truncate(time.Minute)
	projecttest.Stream(log, feed.Aggregate, id, now)(
		feed.Created{
			Organization: org,
			Settings:     feed.Settings{Name: "F", Description: "D"},
			Enabled:      true,
			At:           now,
		},
		feed.SourceAttached{
			AssociationID: uuid.New(),
			SourceID:      source,
			SourceType:    "site",
			At:            now,
		})
	for i := range size {
		d := happening.Details{
			Title:            fmt.Sprintf("Concert %d", i),
			Description:      "<p>" + strings.Repeat("An evening of music in the old town hall. ", 12) + "</p>",
			ShortDescription: "An evening of music.",
			PrimaryImage:     "https://example.org/i.png",
			PrimaryURL:       "https://example.org/concert",
			Time: happening.Time{
				TemporalPattern: happening.Recurring,
				Timezone:        "Europe/Rome",
				DisplayText:     "Sat, 20:00",
			},
			Location: &happening.Location{
				Venue:          &happening.Venue{Name: "Town hall", Address: "Market 1"},
				DisplayAddress: "Town hall, Market 1",
			},
		}
		status := happening.Scheduled
		switch {
		case i >= size-size/1000:
			status = happening.Postponed
		case i >= size-size/100:
			status = happening.Cancelled
		}
		begins := now.Add(-30*24*time.Hour + time.Duration(i)*10*24*time.Hour/time.Duration(size))
		for n := range 10 {
			instance := happening.Instance{ID: happening.DeriveInstanceID(fmt.Sprint(i), fmt.Sprint(n)), Status: status}
			start := begins.Add(time.Duration(n) * 10 * 24 * time.Hour)
			end := start.Add(2 * time.Hour)
			instance.Occurrences = []happening.Occurrence{{
				ID:     happening.DeriveOccurrenceID(instance.ID, 0),
				Start:  start,
				End:    &end,
				Status: status,
			}}
			d.Instances = append(d.Instances, instance)
		}
		happeningID := uuid.New()
		itemID := item.ID(id, happeningID)
		projecttest.Stream(log, happening.Aggregate, happeningID, now)(happening.Observed{
			SourceID: source,
			Key:      "k",
			Details:  d,
			Source:   happening.Block{Type: "site"},
			At:       now,
		})
		projecttest.Stream(log, item.Aggregate, itemID, now)(item.Added{
			FeedID:      id,
			HappeningID: happeningID,
			SourceID:    source,
			At:          now.Add(time.Duration(i) * time.Millisecond),
		})
		if i%250 == 249 {
			log.Project()
		}
	}
	log.Project()
	return id
}
