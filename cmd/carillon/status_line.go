package main

import (
	"fmt"
	"time"

	"carillon/cmd/internal/config"
)

const (
	progressOnTerminal = time.Second / 4
	progressInLog      = 10 * time.Second // if the output goes to a file
)

// statusLine says how far something is: on a terminal in one line that changes, else in a line now and then.
type statusLine struct {
	t        terminal
	terminal bool
	every    time.Duration
	shown    time.Time
	dirty    bool // the terminal's line has something
}

func newStatusLine(t terminal) *statusLine {
	l := &statusLine{t: t, terminal: config.IsTerminal(t.err), every: progressInLog}
	if l.terminal {
		l.every = progressOnTerminal
	}
	return l
}

// due reports whether it is time to show something else.
func (l *statusLine) due(at time.Time) bool { return at.Sub(l.shown) >= l.every }

func (l *statusLine) show(at time.Time, text string) {
	l.shown = at
	if l.terminal {
		_, _ = fmt.Fprintf(l.t.err, "\r\x1b[K%s", text)
		l.dirty = true
		return
	}
	_, _ = fmt.Fprintln(l.t.err, text)
}

// end clears the terminal's line.
func (l *statusLine) end() {
	if l.dirty {
		_, _ = fmt.Fprint(l.t.err, "\r\x1b[K")
	}
	l.dirty = false
}
