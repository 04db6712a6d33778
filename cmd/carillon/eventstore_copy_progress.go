package main

import (
	"fmt"
	"time"

	"carillon/eventstore/copying"
)

const rateOver = 30 * time.Second

// copyProgress shows how far a copy is, how fast it goes, and how long it will still take.
type copyProgress struct {
	*statusLine

	phase   string
	samples []progressSample // recent ones, for the rate
}

type progressSample struct {
	at time.Time
	copying.Progress
}

func newCopyProgress(t terminal) *copyProgress { return &copyProgress{statusLine: newStatusLine(t)} }

// report implements the callback of copying.Options.
func (p *copyProgress) report(now copying.Progress) {
	at := time.Now()
	if now.Phase != p.phase {
		p.phase, p.samples, p.shown = now.Phase, nil, at
	}
	for len(p.samples) > 1 && at.Sub(p.samples[1].at) > rateOver {
		p.samples = p.samples[1:]
	}
	if n := len(p.samples); n < 2 || at.Sub(p.samples[n-1].at) >= time.Second {
		p.samples = append(p.samples, progressSample{at: at, Progress: now})
	}
	if p.due(at) {
		p.show(at, progressText(p.samples[0].Progress, now, at.Sub(p.samples[0].at)))
	}
}

// progressText describes the progress of a phase since an earlier sample.
func progressText(then, now copying.Progress, elapsed time.Duration) string {
	share := 100.0
	if now.Total > 0 {
		share = 100 * float64(now.Done) / float64(now.Total)
	}
	text := fmt.Sprintf("%s: %.1f %%", now.Phase, share)
	if elapsed < time.Second || now.Done <= then.Done {
		return text
	}
	what := "events"
	if now.Phase == copying.PhaseDescribe {
		what = "streams"
	}
	left := time.Duration(float64(now.Total-now.Done) / float64(now.Done-then.Done) * float64(elapsed))
	return fmt.Sprintf("%s, %.0f %s/s, about %s left", text, float64(now.Events-then.Events)/elapsed.Seconds(), what,
		max(left.Round(time.Second), time.Second))
}
