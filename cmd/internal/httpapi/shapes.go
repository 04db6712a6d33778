package httpapi

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

// named says what was not found.
func named(err error, what string) error {
	if errors.Is(err, query.ErrNotFound) {
		return &wire.Failure{Kind: wire.NotFound, Issue: what + " not found", Cause: err}
	}
	return err
}

// utc is an instant that may be missing, in UTC: Postgres gives local times.
func utc(at *time.Time) *time.Time {
	if at == nil {
		return nil
	}
	in := at.UTC()
	return &in
}

// text is a string that is null where it is empty.
func text(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// identifier is an id that is null where there is none.
func identifier(id uuid.UUID) *uuid.UUID {
	if id == uuid.Nil {
		return nil
	}
	return &id
}
