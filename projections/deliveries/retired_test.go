package deliveries_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

// retire records that the first two events are retired: one succeeded at alpha and failed at beta, the other was
// replayed at alpha.
func (h history) retire() {
	projecttest.Stream(h.Log, retirement.Aggregate, retirement.LogID, noon.AddDate(1, 0, 0))(retirement.Retired{
		Batch:        uuid.MustParse("77777777-7777-4777-8777-777777777777"),
		Before:       noon.AddDate(0, 6, 0),
		Publications: []retirement.Publication{{ID: event(1), To: []int{0, 1}}, {ID: event(2), To: []int{0}}},
		Destinations: []retirement.Destination{
			{ID: alpha, Organization: org},
			{ID: beta, Organization: org},
		},
		Outcomes: []retirement.Outcomes{
			{
				To:        0,
				Day:       "2026-11-21",
				Type:      "news.item.added",
				FeedID:    feed,
				Succeeded: 2,
			},
			{
				To:     1,
				Day:    "2026-11-21",
				Type:   "news.item.added",
				FeedID: feed,
				Failed: 1,
			},
		},
		Attempts: []retirement.Attempts{
			{
				To:             0,
				Day:            "2026-11-21",
				ResponseStatus: 200,
				DurationMicros: 2000,
				Count:          2,
			},
			{
				To:             0,
				Day:            "2026-11-21",
				FailureReason:  "http_status",
				ResponseStatus: 500,
				DurationMicros: 1500,
				Count:          1,
				Deliveries:     1,
				LastAt:         noon,
			},
			{
				To:             1,
				Day:            "2026-11-21",
				FailureReason:  "http_status",
				ResponseStatus: 500,
				DurationMicros: 1500,
				Count:          2,
				Deliveries:     1,
				LastAt:         noon.Add(time.Minute),
			},
		},
		At: noon.AddDate(1, 0, 0),
	})
}

// lived is a history with deliveries that will be retired, and some that stay.
func (h history) lived() {
	h.schedule(1, noon, to(alpha), to(beta))
	h.happens(1, alpha, succeeded(1, alpha, noon))
	h.happens(1, beta, failed(1, beta, noon, noon.Add(time.Minute)), gaveUp(2, beta, noon.Add(time.Minute)))
	h.schedule(2, noon, to(alpha))
	h.happens(2, alpha, gaveUp(1, alpha, noon), replayWanted(alpha, uuid.New(), noon.Add(time.Hour)),
		succeeded(2, alpha, noon.Add(time.Hour)))
	h.schedule(3, noon, to(alpha))
	h.happens(3, alpha, succeeded(1, alpha, noon))
	h.schedule(4, noon.AddDate(0, 9, 0), to(beta))
}

// counts are what analysts see of days, and what lists count.
const counts = `(SELECT 'tallies', destination, day, type, total, succeeded, failed FROM deliveries.tallies
	UNION ALL SELECT 'retired', destination, day, type, total, succeeded, failed FROM deliveries.retired
	UNION ALL SELECT 'outcomes', organization, day, '', total, succeeded, failed FROM deliveries.outcomes)`

func TestRetired(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.lived()
	h.Project()
	before := h.analysis()
	h.retire()
	h.Project()
	assert.Same(t, h.analysis(), before)
	assert.Equal(t, h.count("SELECT count(*) FROM deliveries.deliveries"), 2, "deliveries are left")
	all := []string{
		"deliveries.deliveries", "deliveries.earlier_attempts", "deliveries.due", "deliveries.retired_attempts", counts,
	}
	want := h.Dump(all...)
	assert.Equal(t, h.count("SELECT sum(total) FROM deliveries.tallies"), 2, "deliveries are tallied, 2 are there")
	for _, size := range []int{1, 3, 1000} { // a rebuild from a log that still has everything
		h.ProjectInBatches(deliveries.ReadModel, size)
		assert.Alike(t, h.Dump(all...), want, "in batches of %d", size)
	}
	for name, gone := range map[string][]string{ // in the order of their removal
		"dispatches": {"dispatch-" + event(1).String(), "dispatch-" + event(2).String()},
		"a delivery too": {
			"dispatch-" + event(1).String(), "dispatch-" + event(2).String(),
			"delivery-" + dispatch.DeliveryID(event(2), alpha).String(),
		},
		"a delivery alone": {"delivery-" + dispatch.DeliveryID(event(1), beta).String()},
		"all": {
			"dispatch-" + event(1).String(), "dispatch-" + event(2).String(),
			"delivery-" + dispatch.DeliveryID(event(1), alpha).String(),
			"delivery-" + dispatch.DeliveryID(event(1), beta).String(),
			"delivery-" + dispatch.DeliveryID(event(2), alpha).String(),
		},
	} {
		for _, size := range []int{1, 1000} {
			scavenged := newHistory(t)
			for _, e := range h.Events() {
				if !slices.Contains(gone, e.Stream) {
					scavenged.Append(e)
				}
			}
			scavenged.ProjectInBatches(deliveries.ReadModel, size)
			assert.Alike(t, projecttest.Placeless(scavenged.Dump(all...)), projecttest.Placeless(want),
				"without %s, in batches of %d", name, size)
		}
	}
}

// analysis returns the counts for analysts, whether the deliveries are there or not. The durations have two digits.
func (h history) analysis() string {
	return h.Dump(`(SELECT destination, day, type, feed_id, sum(total) AS total, sum(succeeded) AS succeeded,
			sum(failed) AS failed FROM deliveries.all_tallies GROUP BY 1, 2, 3, 4 HAVING sum(total) > 0)`,
		`(SELECT organization, destination, day, failure_reason, response_status, count(*) AS attempts,
			count(DISTINCT delivery) + sum(first) AS deliveries, max(duration_micros), CASE WHEN failure_reason IS NOT NULL THEN
			max(attempted_at) END FROM deliveries.all_attempts WHERE failure_reason IS NOT NULL GROUP BY 1, 2, 3, 4, 5)`,
		`(SELECT destination, day, count(*) FROM deliveries.all_attempts GROUP BY 1, 2)`, "deliveries.outcomes")
}

// Counts outlive their destination: its deliveries may be retired before it is deleted, after it or not at all, and
// their streams may be there or not. A waiting delivery is discarded.
func TestRetired_destinationDeleted(t *testing.T) {
	t.Parallel()
	discarding := newHistory(t)
	discarding.lived()
	discarding.happens(4, beta, delivery.Discarded{At: noon.AddDate(0, 9, 1)})
	discarding.Project()
	want := discarding.analysis()
	deleted := func(h history) {
		for _, id := range []uuid.UUID{alpha, beta} {
			projecttest.Stream(h.Log, destination.Aggregate, id, noon)(destination.Deleted{At: noon.AddDate(0, 9, 1)})
		}
	}
	for name, happens := range map[string]func(h history){
		"not retired":    func(h history) { h.lived(); deleted(h) },
		"retired before": func(h history) { h.lived(); h.retire(); deleted(h) },
		"retired after":  func(h history) { h.lived(); deleted(h); h.retire() },
		"without streams, and one that was scheduled at the same time": func(h history) {
			h.schedule(3, noon, to(alpha))
			h.happens(3, alpha, succeeded(1, alpha, noon))
			deleted(h)
			h.schedule(4, noon.AddDate(0, 9, 0), to(beta))
			h.retire()
		},
	} {
		h := newHistory(t)
		happens(h)
		for _, size := range []int{1, 3, 1000} {
			h.ProjectInBatches(deliveries.ReadModel, size)
			assert.Alike(t, h.analysis(), want, "%s, in batches of %d", name, size)
			assert.Equal(t, h.count("SELECT count(*) FROM deliveries.deliveries"), 0,
				"%s, in batches of %d … deliveries are shown", name, size)
		}
	}
}

// Facts about a delivery that is retired change nothing: its row is gone.
func TestRetired_lateFacts(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.lived()
	h.retire()
	h.Project()
	want := h.Dump("deliveries.deliveries", counts)
	h.happens(1, alpha, succeeded(2, alpha, noon.AddDate(1, 0, 1)))
	h.Project()
	assert.Same(t, h.Dump("deliveries.deliveries", counts), want)
}

func TestRetired_publications(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	for n := range 3 {
		h.publish(n + 1)
	}
	h.retire()
	h.Project()
	var left uuid.UUID
	var revision eventstore.Revision
	err := h.Database.QueryRow(t.Context(), "SELECT id, revision FROM publications.publications, publications.retirement").
		Scan(&left, &revision)
	if err != nil || left != event(3) || revision != 0 {
		t.Errorf("left is %s of %s, at revision %d: %v", left, publication.Aggregate.Stream(event(3)), revision, err)
	}
}
