//go:build containers

package containers_test

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/testcontainers/testcontainers-go"
)

const (
	faultLength = 20 * time.Second
	longOutage  = 10 * time.Second
	// Requests that may be sent again: those in flight, and those answered and not recorded yet.
	inFlight = 60
)

// fault is something that happens to a container.
type fault struct {
	name  string
	alone bool // nothing else does the work meanwhile, so that the outage includes the fault
	begin func(c *cluster) (end func())
}

// faults are made one by one.
func faults() (list []fault) {
	stop := 10 * time.Second
	for _, server := range []string{"api-1", "deliver-1"} {
		for _, cut := range []struct{ peer, network string }{{"store", "store"}, {"postgres", "postgres"}} {
			list = append(list, fault{
				name:  server + " cut from " + cut.peer,
				begin: func(c *cluster) func() { return c.cut(server, cut.peer, cut.network) },
			})
		}
		list = append(list,
			fault{name: server + " paused", begin: func(c *cluster) func() { return c.paused(server) }},
			fault{name: server + " killed", begin: func(c *cluster) func() { return c.killed(server) }},
			fault{name: server + " replaced", begin: func(c *cluster) func() {
				c.remove(server, nil)
				return func() { c.serve(server) }
			}})
	}
	list = append(list, fault{
		name:  "deliver-1 cut from the receiver",
		begin: func(c *cluster) func() { return c.cut("deliver-1", "receiver", "all") },
	})
	for _, one := range []string{"store", "postgres"} {
		list = append(list,
			fault{name: one + " paused", alone: true, begin: func(c *cluster) func() { return c.paused(one) }},
			fault{name: one + " killed", alone: true, begin: func(c *cluster) func() { return c.killed(one) }})
	}
	return append(list, fault{name: "rolling restart", begin: func(c *cluster) func() {
		for server := range roles {
			c.remove(server, &stop)
			c.serve(server)
		}
		return func() {}
	}})
}

// Each network is cut, each server paused, killed and replaced, the store and Postgres paused and killed, and all
// servers restarted one by one, while events are published: none is lost, only requests in flight come again, and no
// time without a delivery is long. CARILLON_TORTURE_ONLY chooses faults by a part of their name.
func TestFaults(t *testing.T) {
	c := newCluster(t)
	stop := c.publish()
	var table strings.Builder
	for _, f := range faults() {
		if strings.Contains(f.name, os.Getenv("CARILLON_TORTURE_ONLY")) {
			fmt.Fprintf(&table, "%-32s %s\n", f.name, c.bear(f))
			t.Log(f.name)
		}
	}
	stop()
	c.settle()
	t.Logf("%d events answered\n%s", len(c.answered), table.String())
}

// bear makes a fault and returns the longest time without a delivery, and the number of repeated requests.
func (c *cluster) bear(f fault) string {
	c.Helper()
	before := len(c.repeated(c.arrivals()))
	began := time.Now()
	end := f.begin(c)
	until := began.Add(faultLength)
	for time.Now().Before(until) {
		time.Sleep(100 * time.Millisecond)
	}
	end()
	ended := time.Now()
	c.until(f.name+": deliveries go on", func() bool {
		list := c.arrivals()
		return len(list) > 0 && list[len(list)-1].at.After(ended.Add(time.Second))
	})
	time.Sleep(5 * time.Second) // whatever comes again has come
	list := c.arrivals()
	longest, last := time.Duration(0), began
	for _, a := range list {
		if a.at.After(began) {
			longest, last = max(longest, a.at.Sub(last)), a.at
		}
	}
	again := len(c.repeated(list)) - before
	allowed := longOutage
	if f.alone {
		allowed += ended.Sub(began)
	}
	if longest > allowed {
		c.Errorf("%s: %s without a delivery", f.name, longest.Round(10*time.Millisecond))
	}
	if again > inFlight {
		c.Errorf("%s: %d requests came again, more than were in flight", f.name, again)
	}
	return fmt.Sprintf("longest %8s, again %d", longest.Round(10*time.Millisecond), again)
}

// settle waits until all that was answered has come to each destination.
func (c *cluster) settle() {
	c.Helper()
	missing := 0
	c.until("all has come", func() bool {
		came := map[string]bool{}
		for _, a := range c.arrivals() {
			came[a.delivery] = true
		}
		missing = sentTo*len(c.answered) - len(came)
		return missing <= 0
	})
}

// repeated lists requests for deliveries that had come before.
func (c *cluster) repeated(list []arrival) (again []arrival) {
	came := map[string]bool{}
	for _, a := range list {
		if came[a.delivery] {
			again = append(again, a)
		}
		came[a.delivery] = true
	}
	return again
}

// until waits for three minutes at most.
func (c *cluster) until(what string, holds func() bool) {
	c.Helper()
	for began := time.Now(); !holds(); time.Sleep(200 * time.Millisecond) {
		if time.Since(began) > 3*time.Minute {
			c.Fatalf("not within three minutes: %s", what)
		}
	}
}

func (c *cluster) paused(name string) (end func()) {
	id := c.containers[name].GetContainerID()
	run(c.T, "", "docker", "pause", id)
	return func() { run(c.T, "", "docker", "unpause", id) }
}

func (c *cluster) killed(name string) (end func()) {
	id := c.containers[name].GetContainerID()
	run(c.T, "", "docker", "kill", id)
	return func() {
		run(c.T, "", "docker", "start", id)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.admins[name] != "" {
			c.admins[name] = c.port(name, adminPort) // it may have another one
		}
	}
}

// remove ends a server, in order within a time or at once.
func (c *cluster) remove(name string, within *time.Duration) {
	c.Helper()
	if within != nil {
		if err := c.containers[name].Stop(c.Context(), within); err != nil {
			c.Fatal(err)
		}
	}
	if err := testcontainers.TerminateContainer(c.containers[name]); err != nil {
		c.Fatal(err)
	}
}
