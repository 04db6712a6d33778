package adminclient

import (
	"context"
	"io"
	"net/http"
	"net/url"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

const auditPath = "/admin/audit/destinations/"

// Audit reads the history of a destination, and its state at a time: an instant as the server takes it, or empty for
// now.
func (c *Client) Audit(ctx context.Context, destination uuid.UUID, at string) (adminapi.Audit, error) {
	path := auditPath + destination.String()
	if at != "" {
		path += "?at=" + url.QueryEscape(at)
	}
	return call[adminapi.Audit](ctx, c, http.MethodGet, path, nil)
}

// RecordPath is the path of a part of the record: of everything, without kinds, or of a thing.
func RecordPath(kinds, thing string, filter url.Values) string {
	path := "/admin/audit"
	if kinds != "" {
		path += "/" + kinds + "/" + url.PathEscape(thing)
	}
	if len(filter) > 0 {
		path += "?" + filter.Encode()
	}
	return path
}

// Record reads a page of the record.
func (c *Client) Record(ctx context.Context, path string) (adminapi.RecordPage, error) {
	return call[adminapi.RecordPage](ctx, c, http.MethodGet, path, nil)
}

// ExportAudit writes the history of a destination as NDJSON, while it is received. After an error, it is incomplete.
func (c *Client) ExportAudit(ctx context.Context, destination uuid.UUID, to io.Writer) error {
	return c.ExportRecord(ctx, auditPath+destination.String(), to)
}

// ExportRecord writes the record at a path as NDJSON, while it is received. After an error, it is incomplete.
func (c *Client) ExportRecord(ctx context.Context, path string, to io.Writer) error {
	return c.explained(c.api.Download(ctx, path, "application/x-ndjson", to))
}
