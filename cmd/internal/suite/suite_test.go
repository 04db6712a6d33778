package suite

import (
	"strings"
	"sync"
	"testing"

	"carillon/eventstore/storetest/assert"
)

func TestFixture_startsOnceAndEndsLast(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	var log []string
	o := &owner{out: &out}
	fixture := fixtureOf(o, func(tb testing.TB) int {
		tb.Cleanup(func() { log = append(log, "first") })
		tb.Cleanup(func() { log = append(log, "second") })
		log = append(log, "started")
		return 7
	})
	var asking sync.WaitGroup
	for range 4 {
		asking.Go(func() {
			if got := fixture(t); got != 7 {
				t.Errorf("got %d", got)
			}
		})
	}
	asking.Wait()
	assert.True(t, o.end() && strings.Join(log, " ") == "started second first" && out.Len() <= 0,
		"%v, %s", log, out.String())
}

func TestFixture_failsEveryTestIfItDoesNotStart(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	o := &owner{out: &out}
	fixture := fixtureOf(o, func(tb testing.TB) int {
		tb.Fatalf("no %s", "server")
		return 7
	})
	for range 2 {
		test := &owner{TB: t, out: &strings.Builder{}}
		var asking sync.WaitGroup
		asking.Go(func() { fixture(test) })
		if asking.Wait(); !test.Failed() {
			t.Error("a test goes on without its fixture")
		}
	}
	assert.True(t, !o.end() && out.String() == "fixture: no server\n", "%q", out.String())
}

func TestFixture_failsTheBinaryLater(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	o := &owner{out: &out}
	fixtureOf(o, func(tb testing.TB) int {
		tb.Cleanup(func() { tb.Error("a part stopped") })
		return 0
	})(t)
	assert.True(t, !o.end() && strings.Contains(out.String(), "a part stopped"), "%q", out.String())
}
