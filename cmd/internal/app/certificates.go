package app

import (
	"crypto/tls"
	"log/slog"
	"net/http"

	"carillon/command/delivery"
	"carillon/command/egress"
	"carillon/command/sealing"
	"carillon/eventstore"
)

// clientCertificates shows receivers the certificates of organizations, under the same guard as everything that goes
// out.
func clientCertificates(
	store eventstore.Store, secrets *sealing.Vault, policy egress.Policy, options egress.Options, log *slog.Logger,
) *delivery.Certificates {
	options.MaxIdleConns = options.MaxIdleConnsPerHost // those that show one certificate
	return &delivery.Certificates{
		Store: store,
		Vault: secrets,
		Log:   log,
		Connect: func(shown *tls.Certificate) *http.Transport {
			options := options
			options.Certificate = shown
			return egress.NewTransport(policy, options)
		},
	}
}
