//go:build unix

package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore/storetest/assert"
)

// follow makes events of a package p of lines: an action, a test and an output each, or a wait.
func follow(t *testing.T, lines ...string) (printed string, late bool) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		var out strings.Builder
		events, quits := make(chan event), 0
		w := watch{limit: 30 * time.Second, out: &out, quit: func() { quits++ }}
		go func() {
			defer close(events)
			for _, line := range lines {
				action, rest, _ := strings.Cut(line, " ")
				if wait, err := time.ParseDuration(action); err == nil {
					time.Sleep(wait)
					continue
				}
				name, output, _ := strings.Cut(rest, " ")
				if output != "" {
					output += "\n"
				}
				e := event{Action: action, Package: "p", Test: name}
				e.Output = output
				events <- e
			}
		}()
		w.follow(events)
		printed, late = out.String(), quits == 1
	})
	return printed, late
}

func TestWatch_limitsEachTest(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string
		late  string
	}{
		"in time":       {[]string{"run A", "29s", "pass A", "run B", "29s", "pass B"}, ""},
		"hangs":         {[]string{"run A", "run A/b", "pass A/b", "run C", "35s"}, "C of p"},
		"waits in turn": {[]string{"run A", "20s", "pause A", "1h", "cont A", "9s", "pass A"}, ""},
		"late in all":   {[]string{"run A", "20s", "pause A", "1h", "cont A", "15s", "pass A"}, "A of p"},
		"has subtests":  {[]string{"run A", "20s", "run A/b", "20s", "pass A/b", "run A/c", "20s", "pass A/c", "pass A"}, ""},
		"ends quietly":  {[]string{"run A", "output A --- PASS: A", "35s", "pass A"}, ""},
		"late subtest":  {[]string{"run A", "run A/b", "35s", "pass A/b", "pass A"}, "A/b of p"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed, late := follow(t, c.lines...)
			assert.True(t, late == (c.late != "") && strings.HasPrefix(printed, c.late), "late %v, printed %q", late, printed)
		})
	}
}

func TestWatch_printsWhatFailed(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		lines []string
		want  string
	}{
		"passes": {[]string{
			"run A", "output A === RUN A", "output A noise", "pass A",
			"output  PASS", "output  ok p", "pass ",
		}, "ok p\n"},
		"fails": {[]string{
			"run A", "output A broken", "fail A",
			"output  FAIL", "output  FAIL p", "fail ",
		}, "broken\nFAIL\nFAIL p\n"},
		"panics": {[]string{"run A", "output A panic", "output  FAIL p", "fail "}, "panic\nFAIL p\n"},
		"is late": {[]string{
			"run A", "35s", "run B", "output B goroutine 1", "pass B", "fail A", "fail ",
		}, "A of p has run for 31s, the limit of a test: the goroutines of all that runs follow\ngoroutine 1\n"},
		"skips":   {[]string{"output  ? p", "skip "}, "? p\n"},
		"no code": {[]string{"build-output  syntax"}, "syntax\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			printed, _ := follow(t, c.lines...)
			assert.True(t, printed == c.want, "printed %q, want %q", printed, c.want)
		})
	}
}
