// Package hoststest is the contract of fetch.Hosts: every implementation passes it.
package hoststest

import (
	"bytes"
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon/command/collect/crawl/fetch"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// long is an interval beyond any test.
const long = time.Hour

// Run tests an implementation against the contract. open returns another process's view of the same hosts each time.
func Run(t *testing.T, open func(*testing.T) fetch.Hosts) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, fetch.Hosts, fetch.Hosts){
		"one turn an interval":         oneTurn,
		"many at once get one turn":    manyAtOnce,
		"all wait while a host rests":  rest,
		"no interval means no waiting": noInterval,
		"robots.txt as it was kept":    robots,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t), open(t))
		})
	}
}

func oneTurn(t *testing.T, one, two fetch.Hosts) {
	t.Helper()
	if wait, _ := take(t, one, "turn.example", long); wait != 0 {
		t.Fatalf("the first waits %s", wait)
	}
	if wait, resting := take(t, two, "turn.example", time.Second); wait <= long-time.Minute || wait > long || resting {
		t.Errorf("the second waits %s, resting %v", wait, resting)
	}
	if wait, _ := take(t, two, "other.example", long); wait != 0 {
		t.Errorf("another host waits %s", wait)
	}
}

func manyAtOnce(t *testing.T, one, two fetch.Hosts) {
	t.Helper()
	var turns atomic.Int32
	var group sync.WaitGroup
	for i := range 32 {
		hosts := one
		if i%2 == 0 {
			hosts = two
		}
		group.Go(func() {
			wait, _, err := hosts.Take(t.Context(), "many.example", long)
			if err != nil {
				t.Error(err)
			}
			if wait == 0 {
				turns.Add(1)
			}
		})
	}
	group.Wait()
	assert.Equal(t, turns.Load(), 1, "turns")
}

func rest(t *testing.T, one, two fetch.Hosts) {
	t.Helper()
	for _, wait := range []time.Duration{2 * long, long} { // the shorter one changes nothing
		must.OK(t, one.Rest(t.Context(), "rest.example", wait))
	}
	if wait, resting := take(t, two, "rest.example", 0); !resting || wait <= long || wait > 2*long {
		t.Errorf("waits %s, resting %v", wait, resting)
	}
}

func noInterval(t *testing.T, one, two fetch.Hosts) {
	t.Helper()
	for _, hosts := range []fetch.Hosts{one, two, one} {
		if wait, resting := take(t, hosts, "quick.example", 0); wait != 0 || resting {
			t.Errorf("waits %s, resting %v", wait, resting)
		}
	}
}

func robots(t *testing.T, one, two fetch.Hosts) {
	t.Helper()
	const origin = "https://robots.example"
	ctx := t.Context()
	if _, known, err := two.Robots(ctx, origin); known || err != nil {
		t.Fatalf("known before it was kept: %v, %v", known, err)
	}
	for _, answer := range []fetch.Robots{
		{Body: []byte("User-agent: *\x00\xff\nDisallow: /"), Validators: fetch.Validators{URL: origin + "/robots.txt",
			ETag: `"1"`, LastModified: "Sun"}},
		{}, // the file is gone
	} {
		must.OK(t, one.KeepRobots(ctx, origin, answer))
		kept, known, err := two.Robots(ctx, origin)
		if err != nil || !known || !bytes.Equal(kept.Body, answer.Body) || kept.Validators != answer.Validators ||
			kept.Age < 0 || kept.Age > time.Minute {
			t.Errorf("kept %+v, known %v, %v", kept, known, err)
		}
	}
	hostile := fetch.Robots{Body: []byte("x"), Validators: fetch.Validators{URL: origin, ETag: "\"\xff\x00\"",
		LastModified: strings.Repeat("x", 1<<20)}}
	for _, strange := range []string{origin, "https://\xff.example"} {
		must.OK(t, one.KeepRobots(ctx, strange, hostile))
		if kept, known, err := two.Robots(ctx, strange); err != nil || !known || string(kept.Body) != "x" {
			t.Errorf("kept %q, known %v, %v", kept.Body, known, err)
		}
		if wait, _ := take(t, one, strange, time.Second); wait != 0 {
			t.Errorf("waits %s", wait)
		}
	}
}

func take(t *testing.T, hosts fetch.Hosts, host string, interval time.Duration) (wait time.Duration, resting bool) {
	t.Helper()
	wait, resting, err := hosts.Take(context.WithoutCancel(t.Context()), host, interval)
	must.OK(t, err)
	return wait, resting
}
