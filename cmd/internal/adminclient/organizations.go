package adminclient

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

func organizationPath(id uuid.UUID) string { return "/admin/organizations/" + id.String() }

// Limits shows the limits of an organization.
func (c *Client) Limits(ctx context.Context, organization uuid.UUID) (adminapi.Limits, error) {
	return call[adminapi.Limits](ctx, c, http.MethodGet, organizationPath(organization)+"/limits", nil)
}

// SetLimits replaces the limits of an organization: omitted ones are the defaults.
func (c *Client) SetLimits(
	ctx context.Context, organization uuid.UUID, set map[string]int64,
) (adminapi.Limits, error) {
	return call[adminapi.Limits](ctx, c, http.MethodPut, organizationPath(organization)+"/limits", set)
}

// SuspendOrganization lets no key of an organization open anything; reason may be empty.
func (c *Client) SuspendOrganization(ctx context.Context, organization uuid.UUID, reason string) error {
	return c.do(ctx, http.MethodPost, organizationPath(organization)+"/suspend", map[string]string{"reason": reason})
}

// ResumeOrganization ends a suspension.
func (c *Client) ResumeOrganization(ctx context.Context, organization uuid.UUID) error {
	return c.do(ctx, http.MethodPost, organizationPath(organization)+"/resume", nil)
}

// DeleteOrganization ends an organization permanently.
func (c *Client) DeleteOrganization(ctx context.Context, organization uuid.UUID) error {
	return c.do(ctx, http.MethodDelete, organizationPath(organization), nil)
}

// ClientCertificate shows the client certificate of an organization.
func (c *Client) ClientCertificate(
	ctx context.Context, organization uuid.UUID,
) (query.ClientCertificate, error) {
	return call[query.ClientCertificate](ctx, c, http.MethodGet, certificatePath(organization), nil)
}

// SetClientCertificate sets or replaces the client certificate of an organization. Both are PEM.
func (c *Client) SetClientCertificate(
	ctx context.Context, organization uuid.UUID, certificate, privateKey string,
) (query.ClientCertificate, error) {
	body := map[string]string{"certificate": certificate, "privateKey": privateKey}
	return call[query.ClientCertificate](ctx, c, http.MethodPut, certificatePath(organization), body)
}

// RemoveClientCertificate ends that an organization shows a certificate.
func (c *Client) RemoveClientCertificate(ctx context.Context, organization uuid.UUID) error {
	return c.do(ctx, http.MethodDelete, certificatePath(organization), nil)
}

func certificatePath(organization uuid.UUID) string {
	return organizationPath(organization) + "/client-certificate"
}
