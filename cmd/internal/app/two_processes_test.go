//go:build nightly

package app_test

import (
	"net/http"
	"sync"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/command"
)

// One process has the API and the read models, another one delivers. In the middle of a backlog the first disables the
// destination, or suspends the organization: what was under way ends, nothing else is sent and nothing stays leased. Once it
// is enabled or resumed all of it comes, once.
func TestWhatOneProcessStopsTheOtherDoesNotSend(t *testing.T) {
	const events, underWay = 40, 4 // as many as a destination gets before it has answered
	for name, tt := range map[string]struct{ stop, goOn func(p *process) error }{
		"a destination that is disabled": {
			stop: func(p *process) error {
				p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "disabled"}, http.StatusOK)
				return nil
			},
			goOn: func(p *process) error {
				p.call(http.MethodPatch, destinations+"crm", map[string]any{"status": "enabled"}, http.StatusOK)
				return nil
			},
		},
		"an organization that is suspended": {
			stop: func(p *process) error {
				_, err := p.app.Commands.SuspendOrganization(p.Context(), operator(), command.SuspendOrganization{Organization: organization})
				return err
			},
			goOn: func(p *process) error {
				_, err := p.app.Commands.ResumeOrganization(p.Context(), operator(), command.ResumeOrganization{Organization: organization})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			address := startNode(t)
			p := start(t, func(c *config.Config) {
				c.EventStoreURL = config.Address("esdb://" + address + "?tls=false")
				c.Roles = []string{config.RoleAPI, config.RoleProject}
			})
			other := &process{TB: t, cfg: p.cfg, organization: organization}
			other.cfg.HTTPAddr, other.cfg.AdminAddr = "127.0.0.1:0", "127.0.0.1:0"
			other.cfg.Roles = []string{config.RoleDispatch, config.RoleDeliver}
			other.open()
			var (
				mu   sync.Mutex
				came = map[string]int{}
				let  = make(chan struct{})
			)
			p.connect("crm", p.serve(func(_ http.ResponseWriter, r *http.Request) {
				if r.Method != http.MethodPost {
					return // the probe
				}
				mu.Lock()
				came[r.Header.Get("webhook-id")]++
				mu.Unlock()
				p.untilClosed(let)
			}), 0)
			requests := func() (deliveries, all int) {
				mu.Lock()
				defer mu.Unlock()
				for _, n := range came {
					all += n
				}
				return len(came), all
			}
			count := func(question string) (n int) {
				if err := p.app.Queries.Pool.QueryRow(t.Context(), question).Scan(&n); err != nil {
					t.Fatal(err)
				}
				return n
			}
			for range events {
				p.publish()
			}
			p.eventually("all are there, and the first are under way", func() bool {
				n, _ := requests()
				return n == underWay && count("SELECT count(*) FROM deliveries.due") == events
			})
			if err := tt.stop(p); err != nil {
				t.Error(err)
			}
			p.eventually("what waits has gone back", func() bool { return count("SELECT count(*) FROM deliveries.due WHERE worker IS NOT NULL") == underWay })
			close(let)
			p.eventually("what was under way has ended", func() bool { return count("SELECT count(*) FROM deliveries.due") == events-underWay })
			if n, _ := requests(); n != underWay || count("SELECT count(*) FROM deliveries.due WHERE worker IS NOT NULL") != 0 {
				t.Errorf("%d were sent, want %d, and none held", n, underWay)
			}
			if err := tt.goOn(p); err != nil {
				t.Error(err)
			}
			p.eventually("all comes", func() bool { n, _ := requests(); return n == events })
			p.eventually("all is recorded", func() bool { return count("SELECT count(*) FROM deliveries.due") == 0 })
			if _, all := requests(); all != events {
				t.Errorf("%d requests for %d deliveries", all, events)
			}
		})
	}
}
