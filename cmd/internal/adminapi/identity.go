package adminapi

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"

	"github.com/google/uuid"

	"carillon/command/credential"
	"carillon/query"
)

// Identity is who holds a token.
type Identity struct {
	Operator     bool      // else an auditor
	ID           string    // of the token, and nothing that opens data
	Name         string    // whom it was issued to
	Organization uuid.UUID // the only one that an auditor may look at; uuid.Nil: all
}

// masterID tells one admin token from the next, so that what was begun with it ends when it is exchanged.
func (a *API) masterID() string {
	sum := sha256.Sum256(a.tokenHash[:])
	return "admin:" + hex.EncodeToString(sum[:8])
}

// Identify tells who holds a token, for the console. It returns query.ErrNotFound for one that is not valid.
func (a *API) Identify(ctx context.Context, token string) (Identity, error) {
	sent := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(sent[:], a.tokenHash[:]) == 1 {
		return Identity{Operator: true, ID: a.masterID(), Name: "Operator"}, nil
	}
	valid, err := a.auditorOf(ctx, token)
	if err != nil {
		return Identity{}, err
	}
	presented, _ := credential.Parse(credential.AuditorToken, token)
	if !valid {
		return Identity{}, query.ErrNotFound
	}
	return Identity{ID: presented.ID, Name: "Auditor " + presented.ID}, nil
}

// StillValid reports whether a token that was identified before is valid now.
func (a *API) StillValid(ctx context.Context, who Identity) (bool, error) {
	if who.Operator {
		return who.ID == a.masterID(), nil
	}
	_, err := a.Queries.AuditorHash(ctx, who.ID, a.Now())
	if errors.Is(err, query.ErrNotFound) {
		return false, nil
	}
	return err == nil, err
}
