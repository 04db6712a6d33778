package adminclient

import (
	"context"
	"net/http"

	"github.com/google/uuid"

	"carillon/cmd/internal/adminapi"
)

// Happening is an event and the sources' views of it.
func (c *Client) Happening(ctx context.Context, id uuid.UUID) (shown adminapi.Happening, err error) {
	err = c.call(ctx, http.MethodGet, "/admin/happenings/"+id.String(), nil, &shown)
	return shown, err
}

// SplitHappening undoes what was merged.
func (c *Client) SplitHappening(ctx context.Context, id uuid.UUID) (split adminapi.HappeningSplit, err error) {
	err = c.call(ctx, http.MethodPost, "/admin/happenings/"+id.String()+"/split", nil, &split)
	return split, err
}
