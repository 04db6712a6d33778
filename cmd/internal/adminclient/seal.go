package adminclient

import (
	"context"
	"io"
	"net/http"
	"strconv"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

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
