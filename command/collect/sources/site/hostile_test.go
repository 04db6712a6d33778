//go:build nightly

package site_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/command/collect"
	"carillon/command/collect/budget/budgettest"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/site"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Limits of reading one page: time of one core, and memory of the reading process.
const (
	mostTime   = 2 * time.Second
	mostMemory = 100 << 20
)

// leaner are pages that take less than that, and once came close to it.
var leaner = map[string]int{
	"days excepted": 80 << 20, // one long list, whose values are stored once
}

// hostile are pages that cost far more than their length suggests. Each is read with a given and with twice that size.
var hostile = map[string]struct {
	size int
	page func(size int) string
}{
	"calendar of many events": {50_000, func(n int) string {
		return ics(times(n, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:x\r\nDTSTART:20261205T200000Z\r\nEND:VEVENT\r\n"))
	}},
	"calendar of many events gone by": {100_000, func(n int) string {
		return ics(times(n, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:x\r\nDTSTART:20061205T200000Z\r\nEND:VEVENT\r\n"))
	}},
	"calendar of many rules": {5000, func(n int) string {
		return ics(times(n, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:x\r\nDTSTART:20061205T200000Z\r\nRRULE:FREQ=DAILY\r\n"+
			"END:VEVENT\r\n"))
	}},
	"calendar of seconds without end": {5000, func(n int) string {
		return ics(times(n, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:x\r\nDTSTART:19700101T000000Z\r\nRRULE:FREQ=SECONDLY\r\n"+
			"END:VEVENT\r\n"))
	}},
	"calendar of rules that never match": {10_000, func(n int) string {
		return ics(times(n, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:x\r\nDTSTART:00010101T000000Z\r\n"+
			"RRULE:FREQ=SECONDLY;BYMONTH=2;BYMONTHDAY=30;COUNT=2000000000\r\nEND:VEVENT\r\n"))
	}},
	"calendar of large counts": {10_000, func(n int) string {
		return ics(times(n, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:x\r\nDTSTART:19700101T000000Z\r\n"+
			"RRULE:FREQ=MINUTELY;BYSECOND=1,2;BYDAY=MO;COUNT=2000000000\r\nEND:VEVENT\r\n"))
	}},
	"calendar of positions of nothing": {10_000, func(n int) string {
		return ics(times(n, "BEGIN:VEVENT\r\nUID:%d\r\nSUMMARY:x\r\nDTSTART:19700101T000000Z\r\n"+
			"RRULE:FREQ=DAILY;BYSETPOS=300;COUNT=9\r\nEND:VEVENT\r\n"))
	}},
	"calendar of one event with many changes": {50_000, func(n int) string {
		return ics("BEGIN:VEVENT\r\nUID:x\r\nSUMMARY:x\r\nDTSTART:20261205T200000Z\r\nRRULE:FREQ=HOURLY\r\nEND:VEVENT\r\n" +
			times(n, "BEGIN:VEVENT\r\nUID:x\r\nRECURRENCE-ID;RANGE=THISANDFUTURE:20261205T200000Z\r\n"+
				"DTSTART:20261205T200000Z\r\nSEQUENCE:%d\r\nEND:VEVENT\r\n"))
	}},
	"calendar of many dates": {300_000, func(n int) string {
		return ics("BEGIN:VEVENT\r\nSUMMARY:x\r\nDTSTART:20261205T200000Z\r\nRDATE:" + strings.Repeat("20261206T200000Z,",
			n) + "\r\nEXDATE:" +
			strings.Repeat("20261206T200001Z,", n) + "\r\nEND:VEVENT\r\n")
	}},
	"calendar of parameters": {500_000, func(n int) string {
		return ics("BEGIN:VEVENT\r\nSUMMARY:x\r\nDTSTART" + strings.Repeat(";A=b", n) + ":20261205T200000Z\r\nDTEND" +
			strings.Repeat(`;A="`, n) + ":20261205T200000Z\r\nEND:VEVENT\r\n")
	}},
	"calendar of folds": {1_000_000, func(n int) string {
		return ics("BEGIN:VEVENT\r\nDTSTART:20261205T200000Z\r\nSUMMARY:x" + strings.Repeat("\r\n x", n) +
			"\r\nEND:VEVENT\r\n")
	}},
	"calendar of zones": {20_000, func(n int) string {
		return ics(times(n, "BEGIN:VTIMEZONE\r\nTZID:Z%[1]d\r\nBEGIN:STANDARD\r\nDTSTART:16010101T000000\r\n"+
			"TZOFFSETFROM:+0100\r\nTZOFFSETTO:+0001\r\nRRULE:FREQ=HOURLY\r\nEND:STANDARD\r\nEND:VTIMEZONE\r\n"+
			"BEGIN:VEVENT\r\nSUMMARY:x\r\nDTSTART;TZID=Z%[1]d:20261205T200000\r\nEND:VEVENT\r\n"))
	}},
	"calendar of components in components": {200_000, func(n int) string { return ics(times(n, "BEGIN:X%d\r\n")) }},
	"calendar of short lines": {2_000_000, func(n int) string {
		return ics("BEGIN:VEVENT\r\n" + strings.Repeat("A:\n", n))
	}},
	"calendar of empty lines": {5_000_000, func(n int) string { return ics(strings.Repeat("\n", n)) }},
	"calendar of one title": {5_000_000, func(n int) string {
		return ics("BEGIN:VEVENT\r\nDTSTART:20261205T200000Z\r\nSUMMARY:" + strings.Repeat("<b>&amp;\\n", n/9) +
			"\r\nEND:VEVENT\r\n")
	}},
	"feed of elements in elements": {2_000_000, func(n int) string {
		return "<rss><channel><item>" + strings.Repeat("<a>", n)
	}},
	"feed of posts": {200_000, func(n int) string {
		return "<rss><channel>" + times(n, "<item><link>/%d</link></item>")
	}},
	"feed of one address": {100_000, func(n int) string {
		return "<rss><channel><item><link>https://a.example/" + strings.Repeat("<![CDATA[x]]>&amp;", n)
	}},
	"schedules without end": {20_000, func(n int) string {
		return ld("[" + times(n, `{"@type":"Event","name":"e%d","eventSchedule":{"@type":"Schedule",`+
			`"repeatFrequency":"P1D","startTime":"19:00"}}`) + "]")
	}},
	"one event of many schedules": {30_000, func(n int) string {
		return ld(`{"@type":"Event","name":"e","eventSchedule":[` +
			times(n, `{"@type":"Schedule","byDay":"Mo","startTime":"19:00","repeatCount":%d}`) + "]}")
	}},
	"days excepted": {100_000, func(n int) string {
		return ld(`{"@type":"Event","name":"e","eventSchedule":{"@type":"Schedule","repeatFrequency":"P1D",` +
			`"startDate":"1977-01-01","endDate":"2027-12-01","exceptDate":[` + times(n, `"2026-12-05T%d"`) + "]}}")
	}},
	"a schedule that many events share": {5000, func(n int) string {
		return ld(`{"@graph":[{"@id":"#s","@type":"Schedule","repeatFrequency":"P1D","exceptDate":[` +
			times(n, `"2026-01-%d"`) + "]}," +
			times(n, `{"@type":"Event","name":"e%d","eventSchedule":{"@id":"#s"}}`) + "]}")
	}},
	"long runs": {5000, func(n int) string {
		return ld("[" + times(n, `{"@type":"Event","name":"e%d","startDate":"2026-01-01T10:00",`+
			`"endDate":"2026-12-31T12:00"}`) + "]")
	}},
	"aliases": {60_000, func(n int) string {
		return ld(`{"@context":{` + times(n, `"a%d":"@id"`) + `},"@graph":[` + times(n, `{"x":%d}`) + "]}")
	}},
	"one id again and again": {100_000, func(n int) string {
		return ld("[" + times(n, `{"@id":"#x","@type":"Event","description":"d%d"}`) + "]")
	}},
	"one id by many names": {50_000, func(n int) string {
		return ld("[" + times(n, `{"@id":"#x","name":"e%d","@type":"Event","startDate":"2026-12-05"}`) + "]")
	}},
	"a place that many events share": {5000, func(n int) string {
		return ld(`{"@graph":[{"@id":"#p","@type":"Place","address":[` + times(20*n, `"Street %d"`) + "]}," +
			times(n, `{"@type":"Event","name":"e%d","startDate":"2026-12-05","location":{"@id":"#p"}}`) + "]}")
	}},
	"a description that many events share": {5000, func(n int) string {
		return ld(`{"@graph":[{"@id":"#p","name":"` + strings.Repeat("<b>long</b> & ", 100*n) + `"},` +
			times(n, `{"@type":"Event","name":"e%d","startDate":"2026-12-05","description":{"@id":"#p"}}`) + "]}")
	}},
	"headings": {5000, func(n int) string {
		return times(n, "<h1>Heading that is long enough to be compared number %d</h1>") +
			ld("["+times(n, `{"@type":"Event","name":"Event of some name %d","startDate":"2026-12-05"}`)+"]")
	}},
	"headings in headings": {400, func(n int) string {
		return strings.Repeat("<h1><div>", n) + strings.Repeat("words ", 1000*n)
	}},
	"images": {100_000, func(n int) string {
		return ld(`{"@type":"Event","name":"e","startDate":"2026-12-05","image":[` + times(n, `"/i%d.jpg"`) + "]}")
	}},
	"links": {100_000, func(n int) string {
		return ld(`{"@type":"Event","name":"e","startDate":"2026-12-05","sameAs":[` + times(n, `"/i%d"`) + `],"url":[` +
			times(n, `"/u%d"`) + "]}")
	}},
	"titles": {2000, func(n int) string {
		return ld("[" + times(n, `{"@type":"Event","name":"`+strings.Repeat("- (cancelled ", 150)+
			`%d","startDate":"2026-12-05"}`) + "]")
	}},
	"one title": {1 << 20, func(n int) string {
		return ld(`{"@type":"Event","name":"` + strings.Repeat("- (abgesagt", n/4) + `","startDate":"2026-12-05"}`)
	}},
	"one event of one title, again and again": {5000, func(n int) string {
		return ld("[" + times(n, `{"@type":"Event","name":"e","startDate":"2026-12-05T10:00","url":"/%d"}`) + "]")
	}},
	"starts": {20_000, func(n int) string {
		return ld(`[{"@type":"Event","name":"e","startDate":[` + times(n, `"2026-12-05T10:%d"`) +
			`]},{"@type":"Event","name":"e","url":"/x","startDate":[` + times(n, `"2026-12-05T11:%d"`) + "]}]")
	}},
	"sub-events": {2000, func(n int) string {
		refs := times(n, `{"@id":"#e%d"}`)
		return ld(`{"@graph":[` + times(n, `{"@id":"#e%d","@type":"Event","name":"e","startDate":"2026-12-05"}`) + "," +
			times(50, `{"@type":"Event","name":"w%d","subEvent":[`+refs+"]}") + "]}")
	}},
	"brackets":          {5 << 20, func(n int) string { return ld(strings.Repeat("[", n)) }},
	"empty lists":       {5 << 20, func(n int) string { return ld("[" + strings.Repeat("[],", n/3) + "[]]") }},
	"empty objects":     {5 << 20, func(n int) string { return ld("[" + strings.Repeat("{},", n/3) + "{}]") }},
	"numbers":           {5 << 20, func(n int) string { return ld("[" + strings.Repeat("1,", n/2) + "1]") }},
	"broken JSON":       {5 << 20, func(n int) string { return ld("{" + strings.Repeat(`"a":{b:'c`, n/9)) }},
	"blocks":            {100_000, func(n int) string { return strings.Repeat(ld(`{}`), n) }},
	"elements":          {5 << 20, func(n int) string { return strings.Repeat("<i>", n/3) }},
	"a million deep":    {1_000_000, func(n int) string { return strings.Repeat("<div>", n) }},
	"one tag":           {5 << 20, func(n int) string { return "<p " + strings.Repeat("a", n) + ">" }},
	"attributes":        {5 << 20, func(n int) string { return "<p " + times(n/9, "a%d=1 ") + ">" }},
	"one comment":       {5 << 20, func(n int) string { return "<!--" + strings.Repeat("-", n) }},
	"a tag without end": {5 << 20, func(n int) string { return strings.Repeat("<p a='", n/6) }},
	"formatting that is opened again": {2000, func(n int) string {
		return times(400, `<b id="%d">`) + strings.Repeat("<p>x</p>", 100*n)
	}},
	"formatting in tables": {2000, func(n int) string {
		return "<table>" + times(200, `<font color="%d">`) + strings.Repeat("<tr><td><table>x", 10*n)
	}},
	"references to one part": {5000, func(n int) string {
		return times(n, `<div itemscope itemtype="https://schema.org/Event" itemref="p"><i itemprop="name">e%d</i></div>`) +
			`<div id="p">` + times(n, `<i itemprop="image">%d</i>`) + "</div>"
	}},
	"references to each other": {5000, func(n int) string {
		return times(n, `<div itemscope itemtype="https://schema.org/Event" id="e%[1]d" itemprop="subEvent" itemref="e0 `+
			`e1 e2 e3 e4 e5 e6 e7 e8 e9"><i itemprop="name">e%[1]d</i></div>`) +
			`<div itemscope itemtype="https://schema.org/Event" itemref="e0"></div>`
	}},
	"properties in properties": {400, func(n int) string {
		return `<div itemscope itemtype="https://schema.org/Event">` + strings.Repeat(`<div itemprop="description">`,
			min(n, 480)) + strings.Repeat("words ", 500*n)
	}},
	"Microdata of one id": {20_000, func(n int) string {
		return times(n, `<div itemscope itemid="#x" itemtype="https://schema.org/Event"><meta itemprop="a%d" `+
			`content="x"></div>`)
	}},
	"prefixes": {20_000, func(n int) string {
		return `<div typeof="x">` + times(n, `<i prefix="a: b c: d e: f g%d: h" property="g:x">x</i>`)
	}},
	"RDFa of one subject": {20_000, func(n int) string {
		return `<div vocab="https://schema.org/">` + times(n, `<div about="#x" typeof="Event"><i property="a%d">x</i></div>`)
	}},
	"microformats in microformats": {400, func(n int) string {
		return strings.Repeat(`<div class="h-event p-name e-content">`, min(n, 480)) + strings.Repeat("words ", 500*n)
	}},
	"classic events": {10_000, func(n int) string {
		return times(n, `<div class="vevent"><i class="summary">e%d</i><abbr class="dtstart" `+
			`title="2026-12-05T20:00">x</abbr></div>`)
	}},
	"includes": {5000, func(n int) string {
		return times(n, `<div class="vevent" itemref="p"><i class="summary">e%d</i></div>`) + `<div id="p">` +
			times(n, `<i class="dtstart">%d</i>`) + "</div>"
	}},
	"includes of each other": {200, func(n int) string {
		return times(n, `<div class="vevent" itemref="a"></div><div class="vcard" itemref="a b"></div>`) +
			`<div id="a" class="vcard" itemref="b"></div><div id="b" class="vcard" itemref="a"></div>`
	}},
	"classes": {20_000, func(n int) string {
		return `<div class="h-event ` + times(n, "p-x%d ") + `">` + times(n, `<i class="p-name">%d</i>`)
	}},
	"rows of a list": {100_000, func(n int) string {
		return "<h1>Events</h1>" + times(n, `<p>5 December 2026 <a href="/%d">x</a>`)
	}},
	"lists in lists": {30_000, func(n int) string {
		return "<h1>Events</h1>" + strings.Repeat(times(min(n, 3), `<p>5 December 2026 <a href="/%d">x</a></p><div>`), 160) +
			times(n, "<p>5 December 2026, 8pm</p>")
	}},
	"rows of many dates": {1000, func(n int) string {
		return "<h1>Events</h1>" + times(n, `<p><a href="/%d">x</a>`+strings.Repeat("5 December 2026, 8pm ", 100)+"</p>")
	}},
	"links in links": {200_000, func(n int) string { return strings.Repeat("<a><p>", n) }},
	"selects":        {200_000, func(n int) string { return strings.Repeat("<select><option><table>", n) }},
	"templates":      {200_000, func(n int) string { return strings.Repeat("<template><p>", n) }},
}

func ics(components string) string { return "BEGIN:VCALENDAR\r\n" + components + "END:VCALENDAR\r\n" }

// spent is the cost of reading a page in a child process.
type spent struct {
	Time   time.Duration
	Memory int
	Error  string
	Found  int
}

// hostileEnv names the page that a child process reads.
const hostileEnv = "CARILLON_TEST_HOSTILE_PAGE"

// TestMain reads a hostile page in a child process.
func TestMain(m *testing.M) {
	if name := os.Getenv(hostileEnv); name != "" {
		if err := json.NewEncoder(os.Stdout).Encode(readHostile(name)); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func readHostile(nameAndFactor string) spent {
	name, factor, _ := strings.Cut(nameAndFactor, "|")
	times, _ := strconv.Atoi(factor)
	page := hostile[name]
	p := &fetch.Page{
		URL:       &url.URL{Scheme: "https", Host: "a.example", Path: "/programme"},
		MediaType: "text/html",
		Header:    http.Header{"Content-Type": {"text/html; charset=utf-8"}},
		Body:      []byte(page.page(page.size * times)),
	}
	if strings.HasPrefix(string(p.Body[:min(len(p.Body), 10)]), "<rss>") {
		p.MediaType = "application/rss+xml"
	}
	debug.FreeOSMemory()
	_ = os.WriteFile("/proc/self/clear_refs", []byte("5"), 0) // resets peakMemory
	begin, beginCPU := time.Now(), budgettest.ProcessorTime()
	result, err := site.Read(context.Background(), p, collect.Source{Timezone: "Europe/London"},
		timing.WindowAt(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)))
	s := spent{Time: min(time.Since(begin), budgettest.ProcessorTime()-beginCPU), Memory: peakMemory(),
		Found: len(result.Observations)}
	if err != nil {
		s.Error = err.Error()
		if !errors.Is(err, collect.ErrTooComplex) && !errors.Is(err, collect.ErrUnsupportedContent) {
			s.Error = "unexpected: " + s.Error
		}
	}
	return s
}

// peakMemory returns the maximum memory of this process so far, in bytes.
func peakMemory() int {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(status)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "VmHWM:" {
			kilobytes, _ := strconv.Atoi(fields[1])
			return kilobytes << 10
		}
	}
	return 0
}

// No page exceeds the time or memory of a reading.
func TestHostilePages(t *testing.T) {
	t.Parallel()
	self := must.Get(os.Executable())(t)
	names := make([]string, 0, len(hostile))
	for name := range hostile {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, factor := range []int{1, 2} {
			t.Run(fmt.Sprintf("%s, %d times", name, factor), func(t *testing.T) {
				child := exec.CommandContext(t.Context(), self)
				child.Env = append(os.Environ(), hostileEnv+"="+name+"|"+strconv.Itoa(factor))
				out := must.Get(child.Output())(t)
				var s spent
				must.OK(t, json.Unmarshal(out, &s))
				t.Logf("%v, %d MB, %d found, %s", s.Time.Round(time.Millisecond), s.Memory>>20, s.Found, s.Error)
				assert.True(t, s.Time <= mostTime && s.Memory <= cmp.Or(leaner[name], mostMemory) &&
					!strings.HasPrefix(s.Error, "unexpected"), "takes %v and %d MB: %s", s.Time, s.Memory>>20, s.Error)
			})
		}
	}
}
