//go:build unix

package main

import (
	"fmt"
	"io"
	"strings"
	"time"
)

// event is a line of go test -json.
type event struct {
	Action  string `json:"Action"`
	Package string `json:"Package"`
	Test    string `json:"Test"`
	Output  string `json:"Output"`
}

// test is a test that has begun, or a whole package if its name is empty.
type test struct {
	output []string
	ran    time.Duration // until it paused last
	since  time.Time     // zero if it does not run itself: it is paused, has subtests, or is a package
}

func (t *test) spent() time.Duration {
	if t.since.IsZero() {
		return t.ran
	}
	return t.ran + time.Since(t.since)
}

// watch prints events and ends a test run that has a test that is late.
type watch struct {
	limit time.Duration
	out   io.Writer
	quit  func()          // makes the test binaries print their goroutines and end
	late  string          // says which test is late; "": none
	tests map[event]*test // by package and name
}

func (w *watch) follow(events <-chan event) {
	w.tests = map[event]*test{}
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		select {
		case e, more := <-events:
			if !more {
				return
			}
			w.handle(e)
		case <-look.C:
			w.sample()
		}
	}
}

func (w *watch) sample() {
	for of, t := range w.tests {
		if spent := t.spent(); spent > w.limit && w.late == "" {
			w.late = fmt.Sprintf("%s of %s has run for %s, the limit of a test", of.Test, of.Package, spent.Round(time.Second))
			w.print(w.late + ": the goroutines of all that runs follow\n")
			w.quit()
		}
	}
}

func (w *watch) handle(e event) {
	of := event{Package: e.Package, Test: e.Test}
	t := w.tests[of]
	if t == nil {
		t = &test{}
		w.tests[of] = t
	}
	switch e.Action {
	case "build-output":
		w.print(e.Output)
	case "output":
		w.printed(t, e.Output)
	case "run", "cont":
		t.since = time.Now()
		above := e.Test[:max(0, strings.LastIndex(e.Test, "/"))]
		if parent := w.tests[event{Package: e.Package, Test: above}]; parent != nil {
			parent.ran, parent.since = 0, time.Time{}
		}
	case "pause":
		t.ran, t.since = t.spent(), time.Time{}
	case "pass", "skip", "fail":
		w.end(of, t, e.Action == "fail")
	}
}

func (w *watch) printed(t *test, line string) {
	switch {
	case strings.HasPrefix(line, "=== "):
		return
	case strings.HasPrefix(strings.TrimSpace(line), "--- "):
		t.ran, t.since = 0, time.Time{} // it has ended; the event that says so comes with the next line
	case w.late != "": // goroutines, which count as printed by any test
		w.print(line)
		return
	}
	t.output = append(t.output, line)
}

// end prints what a test or package that failed has printed, with that of the tests that ended with their package. Of a
// package that passed it prints the last line.
func (w *watch) end(of event, t *test, failed bool) {
	delete(w.tests, of)
	if of.Test == "" {
		for other, unfinished := range w.tests {
			if other.Package == of.Package {
				w.end(other, unfinished, failed)
			}
		}
		if n := len(t.output); !failed && n > 0 {
			w.print(t.output[n-1])
		}
	}
	if failed {
		w.print(strings.Join(t.output, ""))
	}
}

func (w *watch) print(text string) { _, _ = io.WriteString(w.out, text) }
