package httpapi

import (
	"errors"
	"net/http"

	"github.com/google/uuid"

	"carillon/cmd/internal/wire"
	"carillon/command"
)

const externalIDRule = "1 to 255 characters from A-Z a-z 0-9 . _ : - and not . or .. alone"

// reference reads a path segment that is a UUID or an externalId.
func reference(r *http.Request, name string) (string, error) {
	ref, err := wire.PathText(r, name)
	if err != nil {
		return "", err
	}
	return ref, checkReference(wire.BadParam, name, ref)
}

// pathID and pathFeed read the id of what a request is about: the answer to a malformed one is 404 under /feeds.
func pathID(r *http.Request) (uuid.UUID, error) { return wire.PathUUID(r, "id", wire.BadParam) }

func pathFeed(r *http.Request) (uuid.UUID, error) { return wire.PathUUID(r, "id", wire.NotFound) }

// checkReference refuses what is neither a UUID nor can be an externalId.
func checkReference(kind wire.Kind, name, ref string) error {
	if command.UUIDShaped(ref) {
		return nil
	}
	var refusal *command.Refusal
	if err := command.CheckExternalID(name, ref); errors.As(err, &refusal) {
		return wire.Fail(kind, name, "must be a UUID or an externalId: "+externalIDRule)
	}
	return nil
}

// givenReference reads a path segment of PUT. A breach of the rules of externalIds is VALIDATION_FAILED there, because
// the caller gives the name, and INVALID_PARAMS elsewhere, because it can't be the name of anything.
func givenReference(r *http.Request, name string) (string, error) {
	ref, err := reference(r, name)
	var failure *wire.Failure
	if errors.As(err, &failure) {
		return "", wire.Fail(wire.Invalid, name, "must be a UUID or an externalId: "+externalIDRule)
	}
	return ref, err
}
