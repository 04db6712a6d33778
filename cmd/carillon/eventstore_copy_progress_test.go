package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore/copying"
)

// A copy that was resumed at 60 % of the log shows the time left by its present rate, not by its starting point.
func TestProgressOfACopy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		p := newCopyProgress(terminal{err: &out})
		for second := range uint64(41) {
			p.report(copying.Progress{
				Phase:  copying.PhaseCopy,
				Done:   600_000 + 5000*second,
				Total:  1_000_000,
				Events: 1200 * second,
			})
			time.Sleep(time.Second)
		}
		p.report(copying.Progress{Phase: copying.PhaseDescribe, Done: 0, Total: 10})
		time.Sleep(20 * time.Second)
		p.report(copying.Progress{
			Phase:  copying.PhaseDescribe,
			Done:   5,
			Total:  10,
			Events: 5,
		})
		p.end()
		want := strings.Join([]string{
			"copying: 65.0 %, 1200 events/s, about 1m10s left",
			"copying: 70.0 %, 1200 events/s, about 1m0s left",
			"copying: 75.0 %, 1200 events/s, about 50s left",
			"copying: 80.0 %, 1200 events/s, about 40s left",
			"setting metadata: 50.0 %, 0 streams/s, about 20s left",
		}, "\n") + "\n"
		if out.String() != want {
			t.Errorf("it shows:\n%s\nwant:\n%s", out.String(), want)
		}
	})
}

// Events that were not copied are counted, and named if they are few.
func TestCopyNamesLeftOut(t *testing.T) {
	t.Parallel()
	if text := leftOutText(nil); text != "" {
		t.Errorf("nothing was left out, it says %q", text)
	}
	few := []copying.LeftOut{{Stream: "$mine", Events: 3}, {Stream: "$stats", Events: 40}}
	if text, want := leftOutText(
		few), "not copied: 43 events in 2 streams that begin with $: $stats (40) $mine (3)"; text != want {
		t.Errorf("it says %q, want %q", text, want)
	}
	var many []copying.LeftOut
	for i := range 13 {
		many = append(many, copying.LeftOut{Stream: fmt.Sprintf("$%d", i), Events: 1})
	}
	if text := leftOutText(many); !strings.Contains(text, "$9 (1) and 3 more") || strings.Contains(text, "$10 ") {
		t.Errorf("it says %q", text)
	}
}
