package console

import (
	"fmt"
	"math"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

// The sizes of charts, in their own units: the browser scales them.
const (
	chartWidth  = 1000
	chartHeight = 160
	barsHeight  = 60
)

// chartRange is a time range that a chart can show.
type chartRange struct {
	Name, Words string
	length      time.Duration
	slot        time.Duration // of one point
}

var chartRanges = []chartRange{
	{"hour", "1 hour", time.Hour, 5 * time.Minute},
	{"day", "24 hours", 24 * time.Hour, time.Hour},
	{"week", "7 days", 7 * 24 * time.Hour, 6 * time.Hour},
	{"month", "30 days", 30 * 24 * time.Hour, 24 * time.Hour},
}

// answering is how destinations have answered: figures for each chartRange, and a chart of one.
type answering struct {
	Ranges []rangeSummary
	Chart  chart
}

// rangeSummary is the summary of a chartRange.
type rangeSummary struct {
	chartRange

	Link          string
	Shown         bool // whether it is the charted one
	Attempts      int
	Rate          string
	P50, P95, P99 string
}

// chart is how destinations have answered over a chartRange.
type chart struct {
	Words string // of the duration
	// Title describes the chart for screen readers.
	Title      string
	From, To   time.Time
	Lines      []line
	Ticks      []tick
	Bars       []bar
	Most       int // highest number of attempts of a point
	Width, Top int // in units
	Bottom     int
	Empty      bool
}

// line is a percentile of the durations of attempts.
type line struct {
	Name   string // p50, p95, p99
	Points string // one per uninterrupted run
	Dots   []dot  // isolated points
}

type dot struct{ X, Y int }

// tick is a duration on the axis. Ticks are spaced as widely as possible.
type tick struct {
	Y     int
	Words string
}

// bar is the number of successful and failed attempts of a point.
type bar struct {
	X, Width           int
	Y, Good, BadY, Bad int
	Title              string
}

// answering reads how a destination, or all of them (uuid.Nil), have answered.
func (c *Console) answering(v *visit, destination uuid.UUID, now time.Time) (answering, error) {
	of := query.AnswerFilter{Destination: destination}
	fine, err := c.Queries.Answers(v.Context(), v.organization(), of, 5*time.Minute,
		now.Add(-time.Hour).Truncate(5*time.Minute), now)
	if err != nil {
		return answering{}, err
	}
	coarse, err := c.Queries.Answers(v.Context(), v.organization(), of, time.Hour,
		now.Add(-30*24*time.Hour).Truncate(time.Hour), now)
	if err != nil {
		return answering{}, err
	}
	return newAnswering(fine, coarse, v.URL, now), nil
}

func newAnswering(fine, coarse []query.Answers, at *url.URL, now time.Time) (a answering) {
	asked := at.Query().Get("range")
	shown := chartRanges[1]
	for _, r := range chartRanges {
		if r.Name == asked {
			shown = r
		}
	}
	for _, r := range chartRanges {
		rows := coarse
		if r.slot < time.Hour {
			rows = fine
		}
		within := since(rows, r.from(now))
		succeeded, failed := query.Count(within)
		values := at.Query()
		values.Set("range", r.Name)
		values.Del("done")
		a.Ranges = append(a.Ranges, rangeSummary{
			chartRange: r,
			Link:       at.Path + "?" + values.Encode() + "#answers",
			Shown:      r.Name == shown.Name,
			Attempts:   succeeded + failed,
			Rate:       percent(succeeded, succeeded+failed),
			P50:        took(0.5, within),
			P95:        took(0.95, within),
			P99:        took(0.99, within),
		})
		if r.Name == shown.Name {
			a.Chart = draw(r, within, now)
		}
	}
	return a
}

// from returns the start of the first point of a chartRange.
func (r chartRange) from(now time.Time) time.Time {
	return now.UTC().Truncate(r.slot).Add(r.slot - r.length)
}

func since(rows []query.Answers, from time.Time) []query.Answers {
	for i, a := range rows {
		if !a.Slot.Before(from) {
			return rows[i:]
		}
	}
	return nil
}

// took formats a latency.
func took(part float64, rows []query.Answers) string {
	if len(rows) == 0 {
		return "–"
	}
	return milliseconds(query.Latency(part, rows))
}

// milliseconds formats a duration with about two digits.
func milliseconds(d time.Duration) string {
	switch ms := float64(d) / float64(time.Millisecond); {
	case ms < 9.95:
		return strconv.FormatFloat(ms, 'f', 1, 64) + " ms"
	case ms < 999.5:
		return strconv.FormatFloat(ms, 'f', 0, 64) + " ms"
	case ms < 99_950:
		return strconv.FormatFloat(ms/1000, 'f', 1, 64) + " s"
	default:
		return strconv.FormatFloat(ms/1000, 'f', 0, 64) + " s"
	}
}

// draw draws a chartRange.
func draw(r chartRange, rows []query.Answers, now time.Time) chart {
	from := r.from(now)
	points := query.InSlots(rows, from, r.slot, int(r.length/r.slot))
	succeeded, failed := query.Count(rows)
	c := chart{
		Words:  r.Words,
		Width:  chartWidth,
		Top:    chartHeight,
		Bottom: barsHeight,
		Empty:  succeeded+failed == 0,
		From:   from,
		To:     now,
		Title: fmt.Sprintf("Over %s, %d attempts, of which %s succeeded; half took at most %s, 95 of 100 at most %s, 99 of "+
			"100 at most %s",
			r.Words, succeeded+failed, percent(succeeded, succeeded+failed), took(0.5, rows), took(0.95, rows),
			took(0.99, rows)),
	}
	c.scale(points, rows)
	c.bars(points, r, from)
	return c
}

// scale draws the latencies on a logarithmic axis.
func (c *chart) scale(points [][]query.Answers, rows []query.Answers) {
	least, most := math.Inf(1), math.Inf(-1)
	parts := []struct {
		name string
		part float64
	}{{"p99", 0.99}, {"p95", 0.95}, {"p50", 0.5}}
	at := func(part float64, rows []query.Answers) float64 {
		return math.Log10(max(0.1, float64(query.Latency(part, rows))/float64(time.Millisecond)))
	}
	for _, rows := range points {
		if len(rows) > 0 {
			least, most = min(least, at(0.5, rows)), max(most, at(0.99, rows))
		}
	}
	if len(rows) == 0 {
		return
	}
	least, most = math.Floor(least), math.Max(math.Ceil(most), math.Floor(least)+1)
	y := func(log float64) int { return int(math.Round(float64(c.Top) * (most - log) / (most - least))) }
	for decade := int(most); decade >= int(least); decade-- {
		c.Ticks = append(c.Ticks, tick{y(float64(decade)),
			milliseconds(time.Duration(math.Pow(10, float64(decade)) * float64(time.Millisecond)))})
	}
	for _, p := range parts {
		l, path, stretch := line{Name: p.name}, &strings.Builder{}, 0
		for i, rows := range points {
			if len(rows) == 0 {
				stretch = 0
				continue
			}
			x, y := c.middle(i, len(points)), y(at(p.part, rows))
			if stretch == 0 && (i+1 == len(points) || len(points[i+1]) == 0) {
				l.Dots = append(l.Dots, dot{x, y})
			}
			fmt.Fprintf(path, "%s%d %d", map[bool]string{true: "M", false: "L"}[stretch == 0], x, y)
			stretch++
		}
		l.Points = path.String()
		c.Lines = append(c.Lines, l)
	}
}

// middle returns the position of a point.
func (c *chart) middle(i, of int) int { return (2*i + 1) * c.Width / (2 * of) }

func (c *chart) bars(points [][]query.Answers, r chartRange, from time.Time) {
	for _, rows := range points {
		succeeded, failed := query.Count(rows)
		c.Most = max(c.Most, succeeded+failed)
	}
	width := c.Width / len(points)
	for i, rows := range points {
		succeeded, failed := query.Count(rows)
		if succeeded+failed == 0 {
			continue
		}
		c.Bars = append(c.Bars, column(i*c.Width/len(points)+width/8, width*3/4, c.Bottom, succeeded, failed, c.Most,
			when(from.Add(time.Duration(i)*r.slot))))
	}
}

// column returns the height of a bar: at least one unit unless it is empty.
func column(x, width, height, succeeded, failed, most int, name string) bar {
	b := bar{X: x, Width: max(1, width), Title: fmt.Sprintf("%s: %d succeeded, %d failed", name, succeeded, failed)}
	if succeeded > 0 {
		b.Good = max(1, height*succeeded/most)
	}
	if failed > 0 {
		b.Bad = max(2, height*failed/most)
	}
	b.Y = height - b.Good
	b.BadY = max(0, b.Y-b.Bad)
	return b
}

// spark is a small chart of a destination's last day.
type spark struct {
	Good, Bad string // SVG paths
	Title     string
}

const (
	sparkHours  = 24
	sparkHeight = 24
	sparkSlot   = 6 // in units
)

// sparks draws the last day of some destinations.
func (c *Console) sparks(v *visit, destinations []query.Destination, now time.Time) (map[uuid.UUID]spark, error) {
	ids := wire.ListOf(destinations, func(d query.Destination) uuid.UUID { return d.ID })
	from := now.UTC().Truncate(time.Hour).Add(-(sparkHours - 1) * time.Hour)
	found, err := c.Queries.AnswersByHour(v.Context(), v.organization(), ids, from)
	if err != nil {
		return nil, err
	}
	drawn := map[uuid.UUID]spark{}
	for _, id := range ids {
		drawn[id] = newSpark(found[id], from)
	}
	return drawn, nil
}

func newSpark(rows []query.Answers, from time.Time) spark {
	most := 1
	for _, a := range rows {
		most = max(most, a.Succeeded+a.Failed)
	}
	succeeded, failed := query.Count(rows)
	s := spark{Title: fmt.Sprintf("the last 24 hours: %d attempts succeeded, %d failed", succeeded, failed)}
	var good, bad strings.Builder
	for _, a := range rows {
		b := column(int(a.Slot.Sub(from)/time.Hour)*sparkSlot+sparkSlot/2, 0, sparkHeight, a.Succeeded, a.Failed, most, "")
		if b.Good > 0 {
			fmt.Fprintf(&good, "M%d %dv-%d", b.X, sparkHeight, b.Good)
		}
		if b.Bad > 0 {
			fmt.Fprintf(&bad, "M%d %dv-%d", b.X, b.Y, min(b.Bad, b.Y))
		}
	}
	s.Good, s.Bad = good.String(), bad.String()
	return s
}
