package adminclient

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"syscall"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

const auditPath = "/admin/audit/destinations/"

// Audit reads the history of a destination, and its state at a time: an instant as the server takes it, or empty for
// now.
func (c *Client) Audit(ctx context.Context, destination uuid.UUID, at string) (audit adminapi.Audit, err error) {
	path := auditPath + destination.String()
	if at != "" {
		path += "?at=" + url.QueryEscape(at)
	}
	err = c.call(ctx, http.MethodGet, path, nil, &audit)
	return audit, err
}

// ExportAudit writes the history of a destination as NDJSON, as it comes in. After an error, what was written is not
// the whole.
func (c *Client) ExportAudit(ctx context.Context, destination uuid.UUID, to io.Writer) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+auditPath+destination.String(), http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+c.token)
	request.Header.Set("Accept", "application/x-ndjson")
	answer, err := c.http.Do(request)
	if errors.Is(err, syscall.ECONNREFUSED) {
		return fmt.Errorf("%w at %s: start one (carillon serve), or name its address (CARILLON_ADMIN_ADDR or --admin-addr)", ErrNoServer, c.base)
	}
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		data, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
		if err != nil {
			return fmt.Errorf("read the answer of %s: %w", c.base, err)
		}
		return c.decode(answer.StatusCode, data, nil)
	}
	if _, err := io.Copy(to, answer.Body); err != nil {
		return fmt.Errorf("the export broke off before its end: %w", err)
	}
	return nil
}
