package adminclient

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
	"carillon/query"
)

// Audit reads the history of a destination, and its state at a time: an instant as the server takes it, or empty for
// now.
func (c *Client) Audit(ctx context.Context, destination uuid.UUID, at string) (adminapi.Audit, error) {
	path := RecordPath("destinations", destination.String(), nil)
	if at != "" {
		path += "?at=" + url.QueryEscape(at)
	}
	return call[adminapi.Audit](ctx, c, http.MethodGet, path, nil)
}

// FindRecorded lists the destinations, deleted ones included, that a text may name: by the beginning of an id, or by an
// external id.
func (c *Client) FindRecorded(ctx context.Context, text string) ([]query.NamedDestination, error) {
	path := "/admin/audit/destinations?ref=" + url.QueryEscape(text)
	list, err := call[adminapi.List[query.NamedDestination]](ctx, c, http.MethodGet, path, nil)
	return list.Items, err
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

// ExportRecord writes the record at a path as NDJSON, while it is received. After an error, it is incomplete.
func (c *Client) ExportRecord(ctx context.Context, path string, to io.Writer) error {
	return c.explained(c.api.Download(ctx, path, "application/x-ndjson", to))
}

// LastSeal reads the newest tree head of the log.
func (c *Client) LastSeal(ctx context.Context) (adminapi.SealState, error) {
	return call[adminapi.SealState](ctx, c, http.MethodGet, "/admin/seal", nil)
}

// Seal signs a tree head of what is in the log now.
func (c *Client) Seal(ctx context.Context) (adminapi.SealState, error) {
	return call[adminapi.SealState](ctx, c, http.MethodPost, "/admin/seal", nil)
}

// ExportProof writes the stored events of a thing with their proofs, while they are received. With a size of an earlier
// tree head, it also proves that the log continues that. After an error, the file is incomplete.
func (c *Client) ExportProof(ctx context.Context, id uuid.UUID, since uint64, to io.Writer) error {
	path := "/admin/seal/exports/" + id.String()
	if since > 0 {
		path += "?since=" + strconv.FormatUint(since, 10)
	}
	return c.explained(c.api.Download(ctx, path, "application/x-ndjson", to))
}
