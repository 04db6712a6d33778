package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore/storetest/must"
)

const module = `module carillon

go 1.26
`

const program = `package sum

type Sum struct{ Of, Calls int }

func (s *Sum) Add(n int) {
	if n < 0 {
		return
	}
	s.Of += n
	s.Calls++
}

const whole = 1

type share struct{ of float64 }

var Whole = share{of: whole}
`

const itsTest = `package sum

import "testing"

func TestAdd(t *testing.T) {
	s := Sum{Of: 1}
	if s.Add(2); s.Of != 3 {
		t.Error(s)
	}
}
`

// A module whose test doesn't look at Calls: of what can be changed and compiled only this goes unnoticed.
func TestMutants(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": module, "sums/sum.go": program, "sums/sum_test.go": itsTest} {
		must.OK(t, os.MkdirAll(filepath.Dir(filepath.Join(root, name)), 0o700))
		must.OK(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o600))
	}
	t.Chdir(root)
	chosen := must.Get(choose(t.Context(), root, 9, 1, []string{"./..."}))(t)
	chosen, binaries, err := build(t.Context(), t.Output(), root, t.TempDir(), chosen)
	must.OK(t, err)
	var noticed, unnoticed []string
	for _, m := range chosen {
		switch by, reached := m.try(t.Context(), binaries); {
		case by == "carillon/sums":
			noticed = append(noticed, m.what)
		case reached:
			unnoticed = append(unnoticed, m.String())
		}
	}
	slices.Sort(noticed)
	if got := strings.Join(noticed, ", "); got != "left out: s.Of += n, turned round: n < 0" {
		t.Error("noticed", got)
	}
	if len(unnoticed) != 1 || unnoticed[0] != "sums/sum.go:10: left out: s.Calls++" {
		t.Error("not noticed", unnoticed)
	}
}
