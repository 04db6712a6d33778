package console

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/wire"
	"carillon/command"
)

// System is the state of the process and its stores, for operators.
type System struct {
	Version    string
	Roles      []string
	StartedAt  time.Time
	EventStore Store
	Database   Store
	Disk       Disk
	Settings   []config.Named // without secrets
	Warnings   []string
}

// Store is a place of data.
type Store struct {
	Where string // without a password
	Bytes int64  // 0 if unknown
}

// Disk is the disk of the data directory.
type Disk struct {
	Path        string
	Free, Total int64 // in bytes; Total is 0 if unknown
}

// Used returns the used share, in percent.
func (d Disk) Used() int {
	if d.Total == 0 {
		return 0
	}
	return int((d.Total - d.Free) * 100 / d.Total)
}

func (c *Console) systemRoutes(r chi.Router) {
	r.With(c.notBound).Get("/system", c.page(c.showSystem))
	r.With(c.onlyOperators).Get("/system/{name}/rebuild", c.page(c.confirmRebuild))
	r.With(c.onlyOperators).Post("/system/{name}/rebuild", c.act(c.rebuild))
}

// systemPage is the system page. System is nil for auditors.
type systemPage struct {
	*System

	Consumers []adminapi.Projection
	Now       time.Time
}

// Rebuilding reports whether a consumer is being rebuilt: then the page offers to reload.
func (s systemPage) Rebuilding() bool {
	return slices.ContainsFunc(s.Consumers, func(p adminapi.Projection) bool {
		return p.Rebuild != nil && p.Rebuild.Error == "" || p.Building != nil
	})
}

// showSystem answers GET /console/system.
func (c *Console) showSystem(v *visit) (screen, error) {
	shown := systemPage{Now: c.Now().UTC()}
	var err error
	if shown.Consumers, err = c.operators.Projections.Status(v.Context()); err != nil {
		return screen{}, err
	}
	if v.session.Role == ForOperator {
		system, err := c.operators.System(v.Context())
		if err != nil {
			return screen{}, err
		}
		shown.System = &system
	}
	return screen{Title: "System", Template: "system", Data: shown}, nil
}

// consumer returns a consumer that can be rebuilt.
func (c *Console) consumer(ctx context.Context, name string) (adminapi.Projection, error) {
	list, err := c.operators.Projections.Status(ctx)
	if err != nil {
		return adminapi.Projection{}, err
	}
	for _, p := range list {
		if p.Name == name && p.Kind == "readModel" {
			return p, nil
		}
	}
	return adminapi.Projection{}, noConsumer(nil)
}

func noConsumer(err error) error {
	return &wire.Failure{Kind: wire.NotFound, Issue: noReadModel, Cause: err}
}

// confirmRebuild answers GET /console/system/{name}/rebuild.
func (c *Console) confirmRebuild(v *visit) (screen, error) {
	found, err := c.consumer(v.Context(), chi.URLParam(v.Request, "name"))
	return screen{Title: "Rebuild " + found.Name, Template: "rebuild", Data: found}, err
}

// rebuild answers POST /console/system/{name}/rebuild.
func (c *Console) rebuild(v *visit) (string, error) {
	name := chi.URLParam(v.Request, "name")
	if _, err := c.consumer(v.Context(), name); err != nil {
		return "", err
	}
	if err := c.Commands.RecordAction(v.Context(), v.caller(), command.RecordAction{
		Action:  "rebuild-projection",
		Subject: name,
	}); err != nil {
		return "", err
	}
	switch err := c.operators.Projections.Rebuild(v.Context(), name); {
	case errors.Is(err, adminapi.ErrNoProjection):
		return "", noConsumer(err)
	case errors.Is(err, adminapi.ErrRebuilding):
		return "", &wire.Failure{Kind: wire.Conflict, Issue: fmt.Sprintf(rebuildingNow, name), Cause: err}
	case err != nil:
		return "", err
	}
	return Base + "/system?done=rebuilding", nil
}
