package items_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/query"
)

// simple is a feed as the interface describes it, in the most naive way.
type simple struct {
	fixture

	items map[uuid.UUID]*simpleItem // by happening
	ids   []uuid.UUID               // of happenings, as they came
}

type simpleItem struct {
	id      uuid.UUID
	added   time.Time
	details happening.Details
}

// listed is an item as a list shows it, as far as it depends on the query.
type listed struct {
	ID         uuid.UUID
	Occurrence struct {
		NextOccurrence     *listedOccurrence
		OccurrencesInRange []listedOccurrence

		TotalOccurrences, UpcomingOccurrences int
	}
}

type listedOccurrence struct {
	StartDateTime time.Time
	Status        string
}

// ended is the status of an occurrence that ends at a time.
func ended(status happening.Status, end, now time.Time) string {
	if (status == happening.Scheduled || status == happening.Rescheduled) && !end.After(now) {
		return "completed"
	}
	return string(status)
}

func endOf(o happening.Occurrence) time.Time {
	if o.End != nil {
		return *o.End
	}
	return o.Start
}

// show is the item in a list; nil if it does not belong there.
func (i *simpleItem) show(in query.ItemsQuery) *listed {
	shown := &listed{ID: i.id}
	matches := in.Status == ""
	for _, instance := range i.details.Instances {
		var last time.Time
		inRange := false
		for _, o := range instance.Occurrences {
			if endOf(o).After(last) {
				last = endOf(o)
			}
			if o.Start.After(in.Until) || o.Start.Before(in.Since) && !endOf(o).After(in.Since) {
				continue
			}
			inRange = true
			shown.Occurrence.OccurrencesInRange = append(shown.Occurrence.OccurrencesInRange,
				listedOccurrence{o.Start.UTC(), ended(o.Status, endOf(o), in.Now)})
			if o.Start.After(in.Now) && o.Status != happening.Cancelled && o.Status != happening.Postponed {
				shown.Occurrence.UpcomingOccurrences++
			}
		}
		matches = matches || inRange && ended(instance.Status, last, in.Now) == in.Status
	}
	shown.Occurrence.TotalOccurrences = len(shown.Occurrence.OccurrencesInRange)
	if !matches || shown.Occurrence.TotalOccurrences == 0 {
		return nil
	}
	slices.SortStableFunc(shown.Occurrence.OccurrencesInRange, func(a, b listedOccurrence) int {
		return a.StartDateTime.Compare(b.StartDateTime)
	})
	shown.Occurrence.NextOccurrence = &shown.Occurrence.OccurrencesInRange[0]
	return shown
}

// list is the answer of a list.
func (s *simple) list(in query.ItemsQuery) (page []*listed, total int) {
	var all []*listed
	added := map[uuid.UUID]time.Time{}
	for _, i := range s.items {
		if shown := i.show(in); shown != nil {
			all = append(all, shown)
			added[i.id] = i.added
		}
	}
	slices.SortFunc(all, func(a, b *listed) int {
		order := a.Occurrence.OccurrencesInRange[0].StartDateTime.Compare(b.Occurrence.OccurrencesInRange[0].StartDateTime)
		if in.OrderBy == query.OrderByCreated {
			order = added[b.ID].Compare(added[a.ID])
		}
		return cmp.Or(order, bytes.Compare(a.ID[:], b.ID[:]))
	})
	from := min(in.Offset, len(all))
	return all[from:min(from+in.Limit, len(all))], len(all)
}

var storedStatuses = []happening.Status{happening.Scheduled, happening.Scheduled, happening.Cancelled,
	happening.Postponed, happening.Rescheduled}

// someDetails are up to three instances with up to three occurrences, none of which starts as another one does.
func someDetails(t *rapid.T) happening.Details {
	d := happening.Details{Title: "x"}
	hours := rapid.SliceOfNDistinct(rapid.IntRange(-10*24, 34*24), 0, 9, rapid.ID[int]).Draw(t, "hours")
	for len(hours) > 0 {
		n := min(len(hours), rapid.IntRange(1, 3).Draw(t, "occurrences"))
		i := happening.Instance{
			ID:     happening.DeriveInstanceID(fmt.Sprint(hours), ""),
			Status: rapid.SampledFrom(storedStatuses).Draw(t, "status"),
		}
		for at, hour := range hours[:n] {
			o := happening.Occurrence{
				ID:     happening.DeriveOccurrenceID(i.ID, at),
				Start:  now.Add(time.Duration(hour) * time.Hour),
				Status: i.Status,
			}
			if length := rapid.SampledFrom([]int{0, 0, 1, 2, 3, 5, 24, 25, 26, 200, 1000}).Draw(t, "length"); length > 0 {
				end := o.Start.Add(time.Duration(length) * time.Hour)
				o.End = &end
			}
			i.Occurrences = append(i.Occurrences, o)
		}
		d.Instances = append(d.Instances, i)
		hours = hours[n:]
	}
	return d
}

// change lets something happen in the feed.
func (s *simple) change(t *rapid.T) {
	known := uuid.Nil
	if len(s.ids) > 0 {
		known = rapid.SampledFrom(s.ids).Draw(t, "happening")
	}
	at := now.Add(time.Duration(rapid.IntRange(-50, 0).Draw(t, "added")) * time.Minute)
	switch kind := rapid.IntRange(0, 4).Draw(t, "change"); {
	case kind < 2 || known == uuid.Nil:
		id := uuid.New()
		i := &simpleItem{id: item.ID(s.feed, id), added: at, details: someDetails(t)}
		s.ids, s.items[id] = append(s.ids, id), i
		s.onHappening(id, observed(s.source, i.details))
		s.addTo(s.feed, id, at)
	case kind == 2 && s.items[known] != nil:
		s.items[known].details = someDetails(t)
		s.onHappening(known, revised(s.source, s.items[known].details))
	case kind == 3 && s.items[known] != nil:
		s.onItem(s.items[known].id, item.Removed{
			FeedID:      s.feed,
			HappeningID: known,
			Reason:      "gone",
			At:          now,
		})
		delete(s.items, known)
	case kind == 4: // something in another feed
		other := uuid.New()
		s.onFeed(other, created(feed.Settings{}), attached(s.source))
		s.addTo(other, known, now)
	}
}

// Both lists, with their totals, equal a naive model of the interface: for any items, ranges, statuses, orders and
// pages, while time goes on and the feed changes. Each page is asked for again and again, so that caches are used;
// another organization gets nothing of it.
func TestListsAgainstANaiveModel(t *testing.T) {
	t.Parallel()
	s := &simple{fixture: open(t), items: map[uuid.UUID]*simpleItem{}}
	const many = 1100 // so that pages are far from the beginning
	for i := range many {
		id := uuid.New()
		one := &simpleItem{
			id:      item.ID(s.feed, id),
			added:   now,
			details: on("x", time.Duration(i%300)*time.Hour, time.Duration(i%700-300)*time.Hour),
		}
		if i%700-300 == i%300 {
			one.details = on("x", time.Duration(i%300)*time.Hour)
		}
		s.ids, s.items[id] = append(s.ids, id), one
		s.add(id, one.details)
	}
	s.Project()
	rapid.Check(t, func(t *rapid.T) {
		in := query.ItemsQuery{
			Status: rapid.SampledFrom([]string{"", "", "scheduled", "cancelled", "postponed", "rescheduled", "completed"}).
				Draw(t, "status"),
			OrderBy: rapid.SampledFrom([]string{query.OrderByOccurrence, query.OrderByCreated}).Draw(t, "order"),
		}
		since := time.Duration(rapid.IntRange(-8*24*6, 31*24*6).Draw(t, "since")) * 10 * time.Minute
		length := time.Duration(rapid.IntRange(1, 38*24*2).Draw(t, "length")) * 30 * time.Minute
		clock := time.Duration(rapid.IntRange(-24*6, 24*6).Draw(t, "now")) * 10 * time.Minute
		for range rapid.IntRange(1, 5).Draw(t, "steps") {
			for range rapid.IntRange(0, 2).Draw(t, "changes") {
				s.change(t)
			}
			s.Project()
			passed := time.Duration(rapid.IntRange(0, 5).Draw(t, "time goes on")) * 20 * time.Minute
			since, clock = since+passed, clock+passed
			in.Since, in.Until, in.Now = now.Add(since), now.Add(since+length), now.Add(clock)
			in.Limit = rapid.IntRange(1, 100).Draw(t, "limit")
			in.Offset = rapid.SampledFrom([]int{0, 0, 1, 20, 150, 999, 1000, 1001, 1050, 1200}).Draw(t, "offset")
			if rapid.Bool().Draw(t, "at the end") {
				_, total := s.list(in)
				in.Offset = max(0, total-3)
			}
			in.Legacy = rapid.Bool().Draw(t, "legacy")
			for _, moved := range []time.Duration{0, time.Microsecond,
				time.Duration(rapid.IntRange(0, 90).Draw(t, "again after")) * time.Minute} {
				in.Since, in.Until, in.Now = in.Since.Add(moved), in.Until.Add(moved), in.Now.Add(moved)
				s.compare(t, in)
			}
			if _, err := s.Items(s.t.Context(), uuid.New(), s.feed, in); !errors.Is(err, query.ErrNotFound) {
				t.Fatalf("another organization: %v", err)
			}
		}
	})
}

// compare asks for a page, and asks the model.
func (s *simple) compare(t *rapid.T, in query.ItemsQuery) {
	want, total := s.list(in)
	page, err := s.Items(s.t.Context(), org, s.feed, in)
	if err != nil {
		t.Fatal(err)
	}
	var got []*listed
	if err := json.Unmarshal(page.Items, &got); err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(append([]*listed{}, want...), got); diff != "" || page.Total != total || page.Count != len(got) {
		t.Fatalf("total %d, want %d; page (-want +got):\n%s", page.Total, total, diff)
	}
}
