package httpapi_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"carillon/aggregates/happening"
)

// Pages of any size, one after the other, are the whole list in its order.
func TestPagesAreTheWholeList(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source, soon := s.site(t), tomorrow()
	_, path := s.eventFeed(t)
	s.attach(t, path, source)
	var byAddition []string
	for i := range 7 { // added one after the other, the later the sooner they take place; two pairs start at one time
		title := fmt.Sprint("Event ", i)
		s.observe(t, source, bare(title, happening.Scheduled, soon.AddDate(0, 0, 20-i/2), soon.AddDate(0, 0, 25)))
		s.items(t, path, i+1)
		byAddition = append([]string{title}, byAddition...)
	}
	for _, version := range []string{"", "/v0"} {
		for _, order := range []string{"occurrence", "created"} {
			var all itemsPage
			s.do(t, request{path: version + path + "/items?orderBy=" + order}).into(t, 200, &all)
			want := all.titles()
			if order == "created" && !slices.Equal(want, byAddition) {
				t.Errorf("newest first: %v", want)
			}
			if last := slices.Sorted(slices.Values(want[5:])); order == "occurrence" &&
				(want[0] != "Event 6" || !slices.Equal(last, []string{"Event 0", "Event 1"})) {
				t.Errorf("earliest first: %v", want)
			}
			if all.Pagination.Limit != 20 || all.Pagination.Offset != 0 || all.Pagination.HasMore {
				t.Errorf("the default page is %+v", all.Pagination)
			}
			for limit := 1; limit <= 8; limit++ {
				var walked []string
				for offset, more := 0, true; more; offset += limit {
					var page itemsPage
					s.do(t, request{path: fmt.Sprintf("%s%s/items?orderBy=%s&limit=%d&offset=%d", version, path, order, limit,
						offset)}).into(t, 200, &page)
					walked = append(walked, page.titles()...)
					more = page.Pagination.HasMore
					if page.Total != 7 || page.Pagination.Limit != limit || page.Pagination.Offset != offset ||
						more != (offset+limit < 7) || len(page.Items) > limit {
						t.Fatalf("limit %d, offset %d: %d items of %d, %+v", limit, offset, len(page.Items), page.Total, page.Pagination)
					}
				}
				if !slices.Equal(walked, want) {
					t.Errorf("pages of %d, by %s: %v, want %v", limit, order, walked, want)
				}
			}
		}
	}
}

func TestStatusFiltersByInstance(t *testing.T) {
	t.Parallel()
	s := serve(t)
	source, soon := s.site(t), tomorrow()
	for _, status := range []happening.Status{happening.Scheduled, happening.Cancelled, happening.Postponed,
		happening.Rescheduled} {
		s.observe(t, source, bare(string(status), status, soon))
	}
	s.observe(t, source, bare("completed", happening.Scheduled, soon.AddDate(0, 0, -3)))
	both := bare("both", happening.Scheduled, soon)
	both.Instances = append(both.Instances, bare("both", happening.Cancelled, soon, soon.AddDate(0, 0, 1)).Instances[1])
	s.observe(t, source, both)
	_, path := s.eventFeed(t)
	s.attach(t, path, source)
	s.items(t, path, 6)
	since := "&since=" + soon.AddDate(0, 0, -5).Format(time.DateOnly)
	for _, version := range []string{"", "/v0"} {
		for status, want := range map[string][]string{
			"scheduled": {"both", "scheduled"}, "cancelled": {"both", "cancelled"}, "postponed": {"postponed"},
			"rescheduled": {"rescheduled"},
			"completed":   {"completed"},
		} {
			for _, order := range []string{"occurrence", "created"} {
				var page itemsPage
				s.do(t, request{path: version + path + "/items?status=" + status + "&orderBy=" + order + since}).into(t, 200, &page)
				titles := page.titles()
				slices.Sort(titles)
				if !slices.Equal(titles, want) || page.Total != len(want) {
					t.Errorf("%s%s by %s: %v of %d, want %v", version, status, order, titles, page.Total, want)
				}
				var one itemsPage // a page that is full has to count
				s.do(t, request{path: version + path + "/items?limit=1&status=" + status + "&orderBy=" + order + since}).
					into(t, 200, &one)
				if one.Total != len(want) || one.Pagination.HasMore != (len(want) > 1) {
					t.Errorf("%s%s: total %d, want %d", version, status, one.Total, len(want))
				}
			}
		}
	}
}
