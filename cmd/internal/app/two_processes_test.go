//go:build nightly

package app_test

import (
	"net/http"
	"sync"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/command"
)

// One process has the API and the read models, others dispatch and deliver. In the middle of a backlog the first
// disables the destination, or suspends the organization: requests in flight end, nothing else is sent and nothing
// stays leased. Once it is enabled or resumed all of it comes, once.
func TestDisabledElsewhereIsNotSent(t *testing.T) {
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
				_, err := p.app.Commands.SuspendOrganization(p.Context(), operator(),
					command.SuspendOrganization{Organization: organization})
				return err
			},
			goOn: func(p *process) error {
				_, err := p.app.Commands.ResumeOrganization(p.Context(), operator(),
					command.ResumeOrganization{Organization: organization})
				return err
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := startApart(t, config.RoleAPI, config.RoleProject)
			p.beside(config.RoleDispatch)
			p.beside(config.RoleDeliver)
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
			p.eventually("all are there, and the first are in flight", func() bool {
				n, _ := requests()
				return n == underWay && count("SELECT count(*) FROM deliveries.due") == events
			})
			if err := tt.stop(p); err != nil {
				t.Error(err)
			}
			p.eventually("waiting deliveries were released", func() bool {
				return count("SELECT count(*) FROM deliveries.due WHERE worker IS NOT NULL") == underWay
			})
			close(let)
			p.eventually("requests in flight have ended", func() bool {
				return count("SELECT count(*) FROM deliveries.due") == events-underWay
			})
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
