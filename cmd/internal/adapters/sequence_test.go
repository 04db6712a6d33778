package adapters_test

import (
	"fmt"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/site"
)

// TestMoveBySequence has a calendar move an event with a higher SEQUENCE: it is rescheduled, and stays so.
func TestMoveBySequence(t *testing.T) {
	t.Parallel()
	talk := func(sequence, days int, title string) string {
		return fmt.Sprintf("BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:q@{}\r\nSUMMARY:%s\r\nSEQUENCE:%d\r\nDTSTART:%s\r\n"+
			"END:VEVENT\r\nEND:VCALENDAR\r\n",
			title, sequence, theHour.Add(time.Duration(days)*aDay).Format("20060102T150405Z"))
	}
	s := walktest.Serve(lasting(t), site.Type, map[string]string{"/all.ics": talk(0, 3, "Town Talk")},
		func(f *fetch.Fetcher) collect.Collector {
			return site.New(f, time.Now)
		})
	w := open(t, map[string]collect.Collector{site.Type: s.Collector})
	source, feed := w.source(command.RegisterSource{Type: site.Type, URL: s.URL + "/all.ics"}), w.feed()
	w.attach(feed, source, site.Type)
	w.eventuallyState(source, 1, "ok")
	for _, step := range []struct{ calendar, came string }{
		{talk(1, 5, "Town Talk"), "revised"}, {talk(1, 5, "Town Talk"), ""}, {talk(1, 5, "Town Talks"), "revised"},
	} {
		s.Set("/all.ics", step.calendar)
		if came := w.walk(source); came != step.came {
			t.Errorf("the calendar came to %q, want %q", came, step.came)
		}
	}
	revised := w.recorded("happening.revised.v1")
	for i := range revised {
		event, err := happening.Events.Decode(&revised[i])
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := event.(happening.Revised); !ok || r.Details.Instances[0].Status != happening.Rescheduled {
			t.Errorf("revised to %+v", event)
		}
	}
	if changed := w.recorded("happening.occurrence-changed.v1"); len(changed) != 1 {
		t.Errorf("%d changes of occurrences", len(changed))
	}
}
