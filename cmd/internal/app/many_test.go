package app_test

import (
	"net/http"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
)

// A destination that hangs holds back no other of its organization.
func TestDestinations_manyBesideOneThatHangs(t *testing.T) {
	p := shared(t)
	hanging := p.countingEndpoint()
	hanging.held.Lock()
	t.Cleanup(hanging.held.Unlock)
	p.connect("hanging", hanging.url, 0)
	all := p.counting("0", "1")
	const events = 80 // more than fit in flight to one destination
	for range events {
		p.publish()
	}
	all(events) // while the first still hangs
}

// counting makes destinations, and returns how to wait until each has got n different deliveries.
func (p *process) counting(names ...string) (until func(n int)) {
	p.Helper()
	var all []*countingEndpoint
	for _, name := range names {
		all = append(all, p.countingEndpoint())
		p.connect(name, all[len(all)-1].url, 0)
	}
	return func(n int) {
		p.Helper()
		defer func() {
			if p.Failed() {
				p.Logf("not done: %.2000s", p.waiting())
			}
		}()
		for _, one := range all {
			p.eventually("each destination has got all", func() bool { got, _ := one.came(); return got >= n })
		}
	}
}

// waiting returns the first deliveries that are not done, with what they wait for.
func (p *process) waiting() []byte {
	_, answer := p.request(http.MethodGet,
		"http://"+p.app.APIAddr().String()+"/events/deliveries?status=waiting,retrying,delivering&limit=5", p.key, nil)
	return answer
}

// Two processes on one event store and one Postgres: both work, and when one leaves, the other goes on. The one without
// the API role does not listen on the API's address.
func TestTwoProcesses_shareTheWork(t *testing.T) {
	address := nodetest.Listen(t, node.Config{Dir: shortDir(t)})
	first := start(t, func(c *config.Config) { c.EventStoreURL = config.Address("esdb://" + address + "?tls=false") })
	second := &process{TB: t, cfg: first.cfg, organization: organization}
	second.cfg.HTTPAddr, second.cfg.AdminAddr = first.app.APIAddr().String(), "127.0.0.1:0"
	second.cfg.Roles = []string{config.RoleProject, config.RoleDispatch, config.RoleDeliver}
	second.open()
	all := first.counting("0", "1", "2")
	for range 50 {
		first.publish()
		second.publish()
	}
	all(100)
	first.close()
	for range 50 {
		second.publish()
	}
	all(150)
}
