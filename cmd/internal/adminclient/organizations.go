package adminclient

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

func organizationPath(id uuid.UUID) string { return "/admin/organizations/" + id.String() }

// Limits shows the limits of an organization.
func (c *Client) Limits(ctx context.Context, organization uuid.UUID) (limits adminapi.Limits, err error) {
	err = c.call(ctx, http.MethodGet, organizationPath(organization)+"/limits", nil, &limits)
	return limits, err
}

// SetLimits replaces the limits of an organization: omitted ones are the defaults.
func (c *Client) SetLimits(
	ctx context.Context, organization uuid.UUID, set map[string]int64,
) (limits adminapi.Limits, err error) {
	err = c.call(ctx, http.MethodPut, organizationPath(organization)+"/limits", set, &limits)
	return limits, err
}

// SuspendOrganization lets no key of an organization open anything; reason may be empty.
func (c *Client) SuspendOrganization(ctx context.Context, organization uuid.UUID, reason string) error {
	return c.call(ctx, http.MethodPost, organizationPath(organization)+"/suspend", map[string]string{"reason": reason},
		nil)
}

// ResumeOrganization ends a suspension.
func (c *Client) ResumeOrganization(ctx context.Context, organization uuid.UUID) error {
	return c.call(ctx, http.MethodPost, organizationPath(organization)+"/resume", nil, nil)
}

// DeleteOrganization ends an organization permanently.
func (c *Client) DeleteOrganization(ctx context.Context, organization uuid.UUID) error {
	return c.call(ctx, http.MethodDelete, organizationPath(organization), nil, nil)
}

// ClientCertificate shows the client certificate of an organization.
func (c *Client) ClientCertificate(
	ctx context.Context, organization uuid.UUID,
) (shown adminapi.ClientCertificate, err error) {
	err = c.call(ctx, http.MethodGet, certificatePath(organization), nil, &shown)
	return shown, err
}

// SetClientCertificate sets or replaces the client certificate of an organization. Both are PEM.
func (c *Client) SetClientCertificate(
	ctx context.Context, organization uuid.UUID, certificate, privateKey string,
) (shown adminapi.ClientCertificate, err error) {
	body := map[string]string{"certificate": certificate, "privateKey": privateKey}
	err = c.call(ctx, http.MethodPut, certificatePath(organization), body, &shown)
	return shown, err
}

// RemoveClientCertificate ends that an organization shows a certificate.
func (c *Client) RemoveClientCertificate(ctx context.Context, organization uuid.UUID) error {
	return c.call(ctx, http.MethodDelete, certificatePath(organization), nil, nil)
}

func certificatePath(organization uuid.UUID) string {
	return organizationPath(organization) + "/client-certificate"
}
