package app

import (
	"context"
	"crypto/tls"
	"net/http"

	"carillon/command/delivery/facts"
	"carillon/command/egress"
	"carillon/command/sealing"
	"carillon/eventstore"
)

// followed makes what decides over deliveries. Receivers are shown the certificates of organizations under the same
// guard as everything that goes out.
func (a *App) followed(vault *sealing.Vault, policy egress.Policy, options egress.Options) *facts.Follower {
	options.MaxIdleConns = options.MaxIdleConnsPerHost // those that show one certificate
	return &facts.Follower{
		Store: a.runner.Store,
		Vault: vault,
		Now:   a.clock.Now,
		Log:   a.log,
		Connect: func(shown *tls.Certificate) *http.Transport {
			options := options
			options.Certificate = shown
			return egress.NewTransport(policy, options)
		},
	}
}

// await waits until consumers have applied the event at a position, the deliverers of all processes among them.
func (a *App) await(ctx context.Context, to eventstore.Position, consumers ...string) bool {
	for _, name := range consumers {
		if name == facts.Name && !a.deliverers.Applied(ctx, to) ||
			name != facts.Name && !a.Progress.Await(ctx, to, name) {
			return false
		}
	}
	return true
}
