package app

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/eventstore"
	"carillon/projections"
)

// rebuilds is adminapi.Projections on the runner: rebuilds go on in this process until it ends.
type rebuilds struct {
	app *App

	mu    sync.Mutex
	under map[string]*adminapi.Rebuild // under way, and those that failed since the start
	lacks map[string]string            // what the last one left out
	works sync.WaitGroup
}

var _ adminapi.Projections = (*rebuilds)(nil)

func newRebuilds(a *App) *rebuilds {
	return &rebuilds{app: a, under: map[string]*adminapi.Rebuild{}, lacks: map[string]string{}}
}

// Status implements adminapi.Projections.
func (r *rebuilds) Status(ctx context.Context) ([]adminapi.Projection, error) {
	statuses, err := projections.Statuses(ctx, r.app.base.pool)
	if err != nil {
		return nil, err
	}
	head, err := r.app.base.store.Head(ctx)
	if err != nil {
		return nil, err
	}
	kinds := map[string]string{}
	for _, c := range consumers() {
		kinds[c.name] = c.kind
	}
	list := make([]adminapi.Projection, len(statuses))
	for i, s := range statuses {
		list[i] = adminapi.Projection{
			Name: s.Name, Kind: cmp.Or(kinds[s.Name], "process"), Position: s.Position.String(), Head: head.String(), Events: s.Events,
			UpdatedAt: s.UpdatedAt, Stopped: s.Stopped, Process: s.Process, Outdated: s.Outdated, Rebuild: r.progress(s.Name),
			LeftOut: r.leftOut(s.Name),
		}
		if s.BuildTo > 0 && s.Incomplete {
			list[i].Building = &adminapi.Building{Done: s.Built, Total: s.BuildTo}
		}
		if s.BuildTo > 0 && !s.Incomplete && list[i].Rebuild == nil { // in another process, or by itself
			list[i].Rebuild = &adminapi.Rebuild{Done: s.Built, Total: s.BuildTo}
		}
		if lag, err := r.app.lags.of(ctx, s, head); err == nil {
			behind := lag.Seconds()
			list[i].Behind = &behind
		}
	}
	return list, nil
}

func (r *rebuilds) progress(name string) *adminapi.Rebuild {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.under[name] == nil {
		return nil
	}
	now := *r.under[name]
	return &now
}

func (r *rebuilds) leftOut(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacks[name]
}

// Rebuild implements adminapi.Projections.
func (r *rebuilds) Rebuild(_ context.Context, name string) error {
	for _, m := range ReadModels() {
		if m.Name != name {
			continue
		}
		r.mu.Lock()
		defer r.mu.Unlock()
		if known := r.under[name]; known != nil && known.Error == "" {
			return adminapi.ErrRebuilding
		}
		r.under[name] = &adminapi.Rebuild{StartedAt: time.Now().UTC()}
		r.works.Go(func() { r.run(m) })
		return nil
	}
	return adminapi.ErrNoProjection
}

// run outlives the request that asked for it, and ends with the process.
func (r *rebuilds) run(m projections.ReadModel) {
	log := r.app.log.With("projection", m.Name)
	log.Info("rebuild begins")
	started := time.Now()
	err := r.app.runner.Rebuild(r.app.ending, m, func(at, head eventstore.Position) {
		r.mu.Lock()
		defer r.mu.Unlock()
		r.under[m.Name].Done, r.under[m.Name].Total = int64(at.Commit), int64(head.Commit) //nolint:gosec // positions fit an int64
	})
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lacks, m.Name)
	if leftOut, ok := errors.AsType[*projections.LeftOutError](err); ok {
		r.lacks[m.Name], err = leftOut.Error(), nil
	}
	if err == nil {
		delete(r.under, m.Name)
		log.Info("rebuild done", "took", time.Since(started).Round(time.Millisecond))
		return
	}
	log.Error("rebuild failed, the old read model goes on", "error", err)
	r.under[m.Name].Error = err.Error()
	if errors.Is(err, projections.ErrRebuilding) {
		r.under[m.Name].Error = "another node is rebuilding it"
	}
}

// wait ends with the last rebuild.
func (r *rebuilds) wait() { r.works.Wait() }
