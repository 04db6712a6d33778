package adminapi

import (
	"math"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/facts"
	"carillon/projections/clientcertificates"
	"carillon/query"
)

func (a *API) clientCertificateRoutes(r routes) {
	r.operators.Get("/admin/organizations/{id}/client-certificate", handle(wire.With(pathID, a.getClientCertificate)))
	r.operators.Put("/admin/organizations/{id}/client-certificate",
		handle(wire.With2(pathID, wire.Decode[clientCertificateBody], a.putClientCertificate)))
	r.operators.Delete("/admin/organizations/{id}/client-certificate",
		handle(wire.With(pathID, wire.Empty(a.deleteClientCertificate))))
}

// daysLeft counts whole days.
func daysLeft(until, now time.Time) int { return int(math.Floor(until.Sub(now).Hours() / 24)) }

// getClientCertificate answers GET /admin/organizations/{id}/client-certificate.
func (a *API) getClientCertificate(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	found, err := a.Queries.ClientCertificate(r.Context(), id)
	found.DaysLeft = daysLeft(found.NotAfter, a.Now())
	return wire.OK(found), wire.NotFoundError(err, "client certificate")
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
	answer := query.ClientCertificate{
		Chain:       shown.Chain,
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
	return a.Changed(r, set.Position, err, reply, clientcertificates.ReadModel.Name, facts.Name)
}

// deleteClientCertificate answers DELETE /admin/organizations/{id}/client-certificate: none is shown from now on.
func (a *API) deleteClientCertificate(r *http.Request, id uuid.UUID) (wire.Reply, error) {
	changed, err := a.Commands.RemoveClientCertificate(r.Context(), operator(r),
		command.RemoveClientCertificate{Organization: id})
	return a.Changed(r, changed.Position, err, wire.Done(), clientcertificates.ReadModel.Name, facts.Name)
}
