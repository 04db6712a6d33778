package httpapi

import (
	"errors"
	"net/http"

	"carillon/cmd/internal/wire"
	"carillon/command"
)

// putDestination creates or replaces. A name that is free becomes the new destination's; a UUID must exist.
func (a *API) putDestination(r *http.Request) (wire.Reply, error) {
	ref, err := givenReference(r, "ref")
	if err != nil {
		return wire.Reply{}, err
	}
	body, err := wire.Decode[settingsBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	if command.UUIDShaped(ref) {
		found, err := a.destination(r)
		if err != nil {
			return wire.Reply{}, err
		}
		at, err := a.Commands.ReplaceDestination(r.Context(), callerOf(r), found.ID, body.input(""))
		if err != nil {
			return wire.Reply{}, err
		}
		shown, err := a.changedDestination(r, found.ID, at, maskedSecrets)
		return wire.OK(shown), err
	}
	upserted, created, at, err := a.Commands.UpsertDestination(r.Context(), callerOf(r), body.input(ref))
	switch {
	case err != nil:
		return wire.Reply{}, err
	case created:
		return a.createdDestination(r, upserted, at)
	}
	shown, err := a.changedDestination(r, upserted.ID, at, maskedSecrets)
	return wire.OK(shown), err
}

// Statuses that callers give; the third is the platform's.
const (
	statusEnabled  = "enabled"
	statusDisabled = "disabled"
)

// patchDestinationBody changes what it names. Headers are replaced as a whole.
type patchDestinationBody struct {
	ExternalID            wire.Optional[string]     `json:"externalId"`
	Name                  wire.Optional[string]     `json:"name"`
	Transport             wire.Optional[string]     `json:"transport"`
	Config                wire.Optional[configBody] `json:"config"`
	DebounceWindowSeconds wire.Optional[int]        `json:"debounceWindowSeconds"`
	Status                wire.Optional[string]     `json:"status"`
}

// Check implements wire.Body.
func (b *patchDestinationBody) Check(c *wire.Checks) {
	if b.ExternalID.Set {
		c.Text("externalId", b.ExternalID.Value, 1, 0)
	}
	if b.Name.Set {
		c.Text("name", b.Name.Value, 1, 0)
	}
	checkTransport(c, b.Transport)
	b.Config.Value.check(c)
	if b.Status.Set {
		c.OneOf("status", b.Status.Value, statusEnabled, statusDisabled)
	}
}

func (b *patchDestinationBody) patch() command.DestinationPatch {
	patch := command.DestinationPatch{
		ExternalID: b.ExternalID.Pointer(), Name: b.Name.Pointer(), URL: b.Config.Value.URL.Pointer(),
		Headers: b.Config.Value.Headers.Pointer(), DebounceWindowSeconds: b.DebounceWindowSeconds.Pointer(),
	}
	if b.Status.Set {
		enabled := b.Status.Value == statusEnabled
		patch.Enabled = &enabled
	}
	return patch
}

func (a *API) patchDestination(r *http.Request) (wire.Reply, error) {
	body, err := wire.Decode[patchDestinationBody](r)
	if err != nil {
		return wire.Reply{}, err
	}
	found, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.ReviseDestination(r.Context(), callerOf(r), found.ID, body.patch())
	if err != nil {
		return wire.Reply{}, err
	}
	shown, err := a.changedDestination(r, found.ID, at, maskedSecrets)
	return wire.OK(shown), err
}

func (a *API) deleteDestination(r *http.Request) (wire.Reply, error) {
	found, err := a.destination(r)
	if err != nil {
		return wire.Reply{}, err
	}
	at, err := a.Commands.DeleteDestination(r.Context(), callerOf(r), found.ID)
	if err != nil {
		return wire.Reply{}, err
	}
	a.awaitRouting(r.Context(), at, "destinations", "subscriptions", "deliveries")
	return wire.Done(), nil
}

// givenReference reads a path segment that PUT may give as a name: then it is held to the rules of externalIds.
func givenReference(r *http.Request, name string) (string, error) {
	ref, err := reference(r, name)
	var failure *wire.Failure
	if errors.As(err, &failure) {
		return "", wire.Fail(wire.Invalid, name, "must be a UUID or an externalId: "+externalIDRule)
	}
	return ref, err
}
