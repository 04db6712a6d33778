package httpapi_test

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"carillon/aggregates/happening"
)

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
			var page struct {
				Items []struct {
					Occurrence struct {
						InRange []struct {
							StartDateTime time.Time `json:"startDateTime"`
						} `json:"occurrencesInRange"`
						Total int `json:"totalOccurrences"`
					} `json:"occurrence"`
				} `json:"items"`
				Total int `json:"total"`
			}
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
