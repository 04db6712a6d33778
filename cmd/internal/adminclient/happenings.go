package adminclient

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

// Happening is an event and the sources' views of it.
func (c *Client) Happening(ctx context.Context, id uuid.UUID) (adminapi.Happening, error) {
	return call[adminapi.Happening](ctx, c, http.MethodGet, "/admin/happenings/"+id.String(), nil)
}

// SplitHappening undoes what was merged.
func (c *Client) SplitHappening(ctx context.Context, id uuid.UUID) (adminapi.HappeningSplit, error) {
	return call[adminapi.HappeningSplit](ctx, c, http.MethodPost, "/admin/happenings/"+id.String()+"/split", nil)
}
