package adminapi

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/projections"
)

// Projections is the interface to the runner of projections.
type Projections interface {
	// Status lists every projection and process manager.
	Status(ctx context.Context) ([]Projection, error)
	// Rebuild begins to rebuild a read model, while the old one serves, and returns at once. It returns ErrNoProjection or
	// ErrRebuilding.
	Rebuild(ctx context.Context, name string) error
	// Verify begins to compare a read model with its events, and returns at once. sample is the percentage of the rows to
	// compare. It returns ErrNoProjection or ErrRebuilding.
	Verify(ctx context.Context, name string, sample float64) error
}

// Refusals of Rebuild and Verify.
var (
	ErrNoProjection = errors.New("no such projection")
	ErrRebuilding   = errors.New("it is being rebuilt or verified already")
)

// Projection is the progress of a projection.
type Projection struct {
	Name     string `json:"name"`
	Kind     string `json:"kind"`     // "readModel" or "process"
	Position string `json:"position"` // of the last event it applied, commit/prepare
	Head     string `json:"head"`     // of the store's newest event
	Events   int64  `json:"events"`   // applied since it was built
	// absent: no process has run it yet
	UpdatedAt time.Time `json:"updatedAt,omitzero"`
	// since the oldest event that it has yet to apply was recorded, 0: none; absent: not known
	Behind   *float64  `json:"behindSeconds,omitzero"`
	Stopped  string    `json:"stopped,omitempty"`  // why it stopped permanently: an event that it can't decode
	Process  string    `json:"process,omitempty"`  // which runs it, as machine:process; absent: none does
	Outdated string    `json:"outdated,omitempty"` // why what it shows is old until Rebuild has ended
	Building *Building `json:"building,omitempty"` // while it has nothing old to show, and not everything new
	Rebuild  *Rebuild  `json:"rebuild,omitempty"`  // while one goes on
	LeftOut  string    `json:"leftOut,omitempty"`  // data that the last rebuild in this process could not carry over

	Verifying *Rebuild      `json:"verifying,omitempty"` // while the process that is asked compares it with its events
	Verified  *Verification `json:"verified,omitempty"`  // the last result since it was built
}

// Verification is the result of a comparison of a read model with its events.
type Verification struct {
	At          time.Time                `json:"at"`
	Sample      float64                  `json:"sample"` // percent of the rows that were compared
	Rows        int64                    `json:"rows"`   // that were compared
	Differing   int64                    `json:"differing"`
	Differences []projections.Difference `json:"differences"` // the first hundred
}

// Building is the progress of a read model that began from nothing.
type Building struct {
	Done  int64 `json:"done"` // in the same unit as Total
	Total int64 `json:"total"`
}

// Rebuild is the progress of a rebuild.
type Rebuild struct {
	StartedAt time.Time `json:"startedAt,omitzero"` // if it runs in the process that is asked
	Done      int64     `json:"done"`               // in the same unit as Total
	Total     int64     `json:"total"`              // 0 if it isn't known yet
	Error     string    `json:"error,omitempty"`    // why it ended before its time; the old one goes on
}

func (a *API) projectionRoutes(r routes) {
	r.auditors.Get("/admin/projections", handle(a.listProjections))
	r.operators.Post("/admin/projections/{name}/rebuild", handle(wire.With(pathName, wire.Empty(a.rebuildProjection))))
	r.auditors.Post("/admin/projections/{name}/verify",
		handle(wire.With2(pathName, wire.DecodeOptional[verifyBody], a.verifyProjection)))
}

// listProjections answers GET /admin/projections.
func (a *API) listProjections(r *http.Request) (wire.Reply, error) {
	list, err := a.Projections.Status(r.Context())
	return listed(list), err
}

// Rebuilding answers the request for a rebuild or a verification.
type Rebuilding struct {
	Name string `json:"name"`
}

// rebuildProjection answers POST /admin/projections/{name}/rebuild.
func (a *API) rebuildProjection(r *http.Request, name string) (wire.Reply, error) {
	if err := a.recordOn(r, "rebuild-projection", name, "readModel"); err != nil {
		return wire.Reply{}, err
	}
	return begun(name, a.Projections.Rebuild(r.Context(), name))
}

// verifyBody is the body of a request to verify a read model.
type verifyBody struct {
	Sample wire.Optional[float64] `json:"sample"`
}

// Check implements wire.Body.
func (b *verifyBody) Check(c *wire.Checks) {
	if b.Sample.Set && (b.Sample.Value <= 0 || b.Sample.Value > wholeSample) {
		c.Fail("sample", "must be more than 0 and at most 100, in percent of the rows; leave it out to compare all")
	}
}

const wholeSample = 100

// verifyProjection answers POST /admin/projections/{name}/verify.
func (a *API) verifyProjection(r *http.Request, name string, body verifyBody) (wire.Reply, error) {
	if err := a.recordOn(r, "verify-projection", name, "readModel", "process"); err != nil {
		return wire.Reply{}, err
	}
	sample := float64(wholeSample)
	if body.Sample.Set {
		sample = body.Sample.Value
	}
	return begun(name, a.Projections.Verify(r.Context(), name, sample))
}

// recordOn records an action on a projection before it begins. A name that none of the kinds has does not reach the
// audit trail, which would say that something was done.
func (a *API) recordOn(r *http.Request, action, name string, kinds ...string) error {
	list, err := a.Projections.Status(r.Context())
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(list, func(p Projection) bool { return p.Name == name && slices.Contains(kinds, p.Kind) }) {
		_, err := begun(name, ErrNoProjection)
		return err
	}
	return a.record(r, action, name)
}

// begun answers a request that begins work on a read model.
func begun(name string, err error) (wire.Reply, error) {
	switch {
	case errors.Is(err, ErrNoProjection):
		return wire.Reply{}, &wire.Failure{
			Kind: wire.NotFound,
			Issue: "no projection has this name, or it is a process, which is not rebuilt: GET " +
				"/admin/projections (carillon projections status) lists them",
			Cause: err,
		}
	case errors.Is(err, ErrRebuilding):
		return wire.Reply{}, &wire.Failure{
			Kind:  wire.Conflict,
			Issue: name + " is being rebuilt or verified already: GET /admin/projections shows how far it is",
			Cause: err,
		}
	case err != nil:
		return wire.Reply{}, err
	}
	return wire.Accepted(Rebuilding{Name: name}), nil
}
