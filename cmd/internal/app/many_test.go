package app_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

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
				p.Logf("not done: %.4000s", p.waiting())
			}
		}()
		for _, one := range all {
			p.eventually("each destination has got all", func() bool { got, _ := one.came(); return got >= n })
		}
	}
}

// waiting returns what Postgres knows of deliveries that are not done: the process may have ended.
func (p *process) waiting() (known string) {
	ctx := context.WithoutCancel(p.Context())
	conn, err := pgx.Connect(ctx, p.cfg.DatabaseURL.Reveal())
	if err != nil {
		return err.Error()
	}
	defer func() { _ = conn.Close(ctx) }()
	if err := conn.QueryRow(ctx, `SELECT json_build_object('now', now(),
		'events', (SELECT count(*) FROM publications.publications),
		'deliveries', (SELECT json_object_agg(status, n)
			FROM (SELECT status, count(*) n FROM deliveries.deliveries GROUP BY 1) s),
		'due', (SELECT json_agg(d) FROM (SELECT * FROM deliveries.due ORDER BY available_at LIMIT 5) d),
		'consumers', (SELECT json_agg(c) FROM carillon.checkpoints c))::text`).Scan(&known); err != nil {
		return err.Error()
	}
	return known
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
