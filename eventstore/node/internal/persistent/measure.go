package persistent

import (
	"math"
	"slices"
	"time"
)

// Measurement is one figure of how long a consumer takes for its answers, in milliseconds.
type Measurement struct {
	Key   string
	Value int64
}

// keptLatencies is how many of the last answers are measured.
const keptLatencies = 1024

// latencies are how long the last answers took, the oldest overwritten first.
type latencies struct {
	kept []time.Duration
	next int
}

func (l *latencies) add(took time.Duration) {
	if len(l.kept) < keptLatencies {
		l.kept = append(l.kept, took)
		return
	}
	l.kept[l.next] = took
	l.next = (l.next + 1) % keptLatencies
}

// measure sums up what was kept; nil where that is nothing.
func (l *latencies) measure() []Measurement {
	if len(l.kept) == 0 {
		return nil
	}
	sorted := slices.Clone(l.kept)
	slices.Sort(sorted)
	var sum time.Duration
	for _, took := range sorted {
		sum += took
	}
	measured := []Measurement{{"Mean", (sum / time.Duration(len(sorted))).Milliseconds()}}
	for _, figure := range []struct {
		key  string
		part float64 // of all answers that took no longer
	}{
		{"Median", .5}, {"Fastest", 0}, {"Quintile 1", .2}, {"Quintile 2", .4}, {"Quintile 3", .6}, {"Quintile 4", .8},
		{"Quintile 5", 1}, {"90%", .9}, {"95%", .95}, {"99%", .99}, {"99.5%", .995}, {"99.9%", .999}, {"Highest", 1},
	} {
		at := int(math.Ceil(figure.part * float64(len(sorted)))) // the smallest that covers the part
		measured = append(measured, Measurement{figure.key, sorted[max(at-1, 0)].Milliseconds()})
	}
	return measured
}
