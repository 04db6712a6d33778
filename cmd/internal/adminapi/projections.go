package adminapi

import (
	"context"
	"errors"
	"net/http"
	"time"

	"carillon/cmd/internal/wire"
)

// Projections is what the admin API needs of the part that runs the projections.
type Projections interface {
	// Status lists every projection and process manager.
	Status(ctx context.Context) ([]Projection, error)
	// Rebuild begins to build a read model anew, while the old one serves, and returns at once. It returns
	// ErrNoProjection or ErrRebuilding.
	Rebuild(ctx context.Context, name string) error
}

// What Rebuild refuses.
var (
	ErrNoProjection = errors.New("no such projection")
	ErrRebuilding   = errors.New("it is being rebuilt already")
)

// Projection says how far one has come.
type Projection struct {
	Name      string    `json:"name"`
	Kind      string    `json:"kind"`     // "readModel" or "process"
	Position  string    `json:"position"` // of the last event it applied, commit/prepare
	Head      string    `json:"head"`     // of the store's newest event
	Events    int64     `json:"events"`   // applied since it was built
	UpdatedAt time.Time `json:"updatedAt"`
	Behind    *float64  `json:"behindSeconds,omitzero"` // since the oldest event that it has yet to apply was recorded, 0: none; absent: not known
	Stopped   string    `json:"stopped,omitempty"`      // why it stopped for good: an event that it can't decode
	Process   string    `json:"process,omitempty"`      // which runs it, as machine:process; absent: none does
	Outdated  string    `json:"outdated,omitempty"`     // why what it shows is old until Rebuild has ended
	Building  *Building `json:"building,omitempty"`     // while it has nothing old to show, and not everything new
	Rebuild   *Rebuild  `json:"rebuild,omitempty"`      // while one goes on
	LeftOut   string    `json:"leftOut,omitempty"`      // what the last rebuild in this process could not carry over
}

// Building says how far a read model is that began from nothing.
type Building struct {
	Done  int64 `json:"done"` // in the same unit as Total
	Total int64 `json:"total"`
}

// Rebuild says how far a rebuild has come.
type Rebuild struct {
	StartedAt time.Time `json:"startedAt,omitzero"` // where it goes on in the process that is asked
	Done      int64     `json:"done"`               // in the same unit as Total
	Total     int64     `json:"total"`              // 0 where it isn't known yet
	Error     string    `json:"error,omitempty"`    // why it ended before its time; the old one goes on
}

func (a *API) projectionRoutes(r routes) {
	r.auditors.Get("/admin/projections", wire.Events.Handle(a.listProjections))
	r.operators.Post("/admin/projections/{name}/rebuild", wire.Events.Handle(a.rebuildProjection))
}

// listProjections answers GET /admin/projections.
func (a *API) listProjections(r *http.Request) (wire.Reply, error) {
	list, err := a.Projections.Status(r.Context())
	if err != nil {
		return wire.Reply{}, err
	}
	if list == nil {
		list = []Projection{}
	}
	return wire.OK(List[Projection]{Items: list}), nil
}

// Rebuilding answers the request for a rebuild.
type Rebuilding struct {
	Name string `json:"name"`
}

// rebuildProjection answers POST /admin/projections/{name}/rebuild.
func (a *API) rebuildProjection(r *http.Request) (wire.Reply, error) {
	name, err := wire.PathText(r, "name")
	if err != nil {
		return wire.Reply{}, err
	}
	if err := wire.DecodeNothing(r); err != nil {
		return wire.Reply{}, err
	}
	if err := a.record(r, "rebuild-projection", name); err != nil {
		return wire.Reply{}, err
	}
	switch err := a.Projections.Rebuild(r.Context(), name); {
	case errors.Is(err, ErrNoProjection):
		return wire.Reply{}, &wire.Failure{Kind: wire.NotFound, Issue: "no projection has this name, or it is a process, which keeps no tables to build anew: GET /admin/projections (carillon projections status) lists them", Cause: err}
	case errors.Is(err, ErrRebuilding):
		return wire.Reply{}, &wire.Failure{Kind: wire.Conflict, Issue: name + " is being rebuilt already: GET /admin/projections shows how far it is", Cause: err}
	case err != nil:
		return wire.Reply{}, err
	}
	return wire.Accepted(Rebuilding{Name: name}), nil
}
