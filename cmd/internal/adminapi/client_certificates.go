package adminapi

import (
	"math"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/projections/clientcertificates"
)

func (a *API) clientCertificateRoutes(r routes) {
	r.operators.Get("/admin/organizations/{id}/client-certificate", handle(wire.With(pathID, a.getClientCertificate)))
	r.operators.Put("/admin/organizations/{id}/client-certificate",
		handle(wire.With2(pathID, wire.Decode[clientCertificateBody], a.putClientCertificate)))
	r.operators.Delete("/admin/organizations/{id}/client-certificate",
		handle(wire.With(pathID, wire.Empty(a.deleteClientCertificate))))
}

// ClientCertificate is presented by an organization's requests to receivers that ask. There is no private key in it.
type ClientCertificate struct {
	Certificate string    `json:"certificate"` // PEM: the client certificate, and after it those that signed it
	Subject     string    `json:"subject"`
	Issuer      string    `json:"issuer"`
	Serial      string    `json:"serialNumber"` // hexadecimal
	Fingerprint string    `json:"fingerprint"`  // SHA-256, hexadecimal
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	DaysLeft    int       `json:"daysLeft"` // whole days until it expires; negative: it has
	SetAt       time.Time `json:"setAt"`
	SetBy       string    `json:"setBy,omitempty"` // an actor, such as operator:ann; in answers
}

// daysLeft counts whole days.
func daysLeft(until, now time.Time) int { return int(math.Floor(until.Sub(now).Hours() / 24)) }

// getClientCertificate answers GET /admin/organizations/{id}/client-certificate.
func (a *API) getClientCertificate(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	found, err := a.Queries.ClientCertificate(r.Context(), id)
	if err != nil {
		return wire.Reply{}, wire.NotFoundError(err, "client certificate")
	}
	return wire.OK(ClientCertificate{
		Certificate: found.Chain,
		Subject:     found.Subject,
		Issuer:      found.Issuer,
		Serial:      found.Serial,
		Fingerprint: found.Fingerprint,
		NotBefore:   found.NotBefore,
		NotAfter:    found.NotAfter,
		DaysLeft:    daysLeft(found.NotAfter, a.Now()),
		SetAt:       found.SetAt,
		SetBy:       found.SetBy,
	}), nil
}

type clientCertificateBody struct {
	Certificate wire.Optional[string] `json:"certificate"`
	PrivateKey  wire.Optional[string] `json:"privateKey"`
}

// Check implements wire.Body. The command looks at what is in them.
func (b *clientCertificateBody) Check(c *wire.Checks) {
	c.Require("certificate", b.Certificate.Set)
	c.Require("privateKey", b.PrivateKey.Set)
}

// putClientCertificate answers PUT /admin/organizations/{id}/client-certificate. The private key comes in and never
// goes out again.
func (a *API) putClientCertificate(r *http.Request, id uuid.UUID, body clientCertificateBody) (wire.Reply, error) {
	set, err := a.Commands.SetClientCertificate(r.Context(), operator(r), command.SetClientCertificate{
		Organization: id, Certificate: body.Certificate.Value, PrivateKey: body.PrivateKey.Value,
	})
	shown := set.Value.Certificate
	answer := ClientCertificate{
		Certificate: shown.Chain,
		Subject:     shown.Subject,
		Issuer:      shown.Issuer,
		Serial:      shown.Serial,
		Fingerprint: shown.Fingerprint,
		NotBefore:   shown.NotBefore,
		NotAfter:    shown.NotAfter,
		DaysLeft:    daysLeft(shown.NotAfter, a.Now()),
		SetAt:       set.Value.SetAt,
	}
	reply := wire.OK(answer)
	if set.Created {
		reply = wire.Created(answer)
	}
	return a.Changed(r, set.Position, err, reply, clientcertificates.ReadModel.Name)
}

// deleteClientCertificate answers DELETE /admin/organizations/{id}/client-certificate: none is shown from now on.
func (a *API) deleteClientCertificate(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.RemoveClientCertificate(r.Context(), operator(r),
		command.RemoveClientCertificate{Organization: id})
	return a.Changed(r, changed.Position, err, wire.Done(), clientcertificates.ReadModel.Name)
}
