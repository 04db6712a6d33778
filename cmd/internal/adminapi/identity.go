package adminapi

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"

	"carillon/query"
)

// configuredID identifies the configured admin token, so that sessions begun with it end when it is exchanged.
func (a *API) configuredID() string {
	sum := sha256.Sum256(a.tokenHash[:])
	return "admin:" + hex.EncodeToString(sum[:8])
}

// StillValid reports whether the token of a principal whom Verify knew is valid now.
func (a *API) StillValid(ctx context.Context, who Principal) (bool, error) {
	if who.Role == RoleOperator && who.Name == "" {
		return who.TokenID == a.configuredID(), nil
	}
	_, err := a.Tokens.Token(ctx, holderOf[who.Role], who.TokenID, a.Now())
	if errors.Is(err, query.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
