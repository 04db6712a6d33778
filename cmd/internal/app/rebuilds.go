package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"carillon/cmd/internal/adminapi"
	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/projections"
)

// rebuilds is adminapi.Projections on the runner: rebuilds and verifications go on in this process until it ends.
type rebuilds struct {
	models *readModels

	mu         sync.Mutex
	rebuilding map[string]*adminapi.Rebuild // in progress, and those that failed since the start
	verifying  map[string]*adminapi.Rebuild // the same
	lacks      map[string]string            // data that the last rebuild left out
}

var _ adminapi.Projections = (*rebuilds)(nil)

func newRebuilds(m *readModels) *rebuilds {
	return &rebuilds{
		models:     m,
		rebuilding: map[string]*adminapi.Rebuild{},
		verifying:  map[string]*adminapi.Rebuild{},
		lacks:      map[string]string{},
	}
}

// Status implements adminapi.Projections.
func (r *rebuilds) Status(ctx context.Context) ([]adminapi.Projection, error) {
	rebuilding, verifying := r.progress(r.rebuilding), r.progress(r.verifying) // before their results are read
	statuses, err := r.models.statuses(ctx)
	if err != nil {
		return nil, err
	}
	head, err := r.models.stores.store.Head(ctx)
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
			Name:      s.Name,
			Kind:      cmp.Or(kinds[s.Name], "process"),
			Position:  s.Position.String(),
			Head:      head.String(),
			Events:    s.Events,
			UpdatedAt: s.UpdatedAt,
			Stopped:   s.Stopped,
			Process:   s.Process,
			Outdated:  s.Outdated,
			Rebuild:   rebuilding[s.Name],
			Verifying: verifying[s.Name],
			LeftOut:   r.leftOut(s.Name),
		}
		if v := s.Verified; v != nil {
			list[i].Verified = &adminapi.Verification{
				At:          v.At.UTC(),
				Sample:      v.Sample,
				Rows:        v.Rows,
				Differing:   v.Differing,
				Differences: v.Differences,
			}
		}
		if s.BuildTo > 0 && s.Incomplete {
			list[i].Building = &adminapi.Building{Done: s.Built, Total: s.BuildTo}
		}
		if s.BuildTo > 0 && !s.Incomplete && list[i].Rebuild == nil { // in another process, or by itself
			list[i].Rebuild = &adminapi.Rebuild{Done: s.Built, Total: s.BuildTo}
		}
		if lag, err := r.models.lags.of(ctx, s, head); err == nil {
			behind := lag.Seconds()
			list[i].Behind = &behind
		}
	}
	return list, nil
}

func (r *rebuilds) progress(of map[string]*adminapi.Rebuild) map[string]*adminapi.Rebuild {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := make(map[string]*adminapi.Rebuild, len(of))
	for name, progress := range of {
		current := *progress
		now[name] = &current
	}
	return now
}

func (r *rebuilds) leftOut(name string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lacks[name]
}

// Rebuild implements adminapi.Projections.
func (r *rebuilds) Rebuild(_ context.Context, name string) error {
	models := ReadModels()
	i := slices.IndexFunc(models, func(m projections.ReadModel) bool { return m.Name == name })
	if i < 0 {
		return adminapi.ErrNoProjection
	}
	return r.begin(r.rebuilding, name, func(report func(at, head eventstore.Position)) error {
		return r.rebuild(models[i], report)
	})
}

// Verify implements adminapi.Projections.
func (r *rebuilds) Verify(_ context.Context, name string, sample float64) error {
	if !slices.Contains(Compared(), name) {
		return adminapi.ErrNoProjection
	}
	return r.begin(r.verifying, name, func(report func(at, head eventstore.Position)) error {
		return r.models.verifications.verify(r.models.ctx, name, sample, report)
	})
}

// begin starts work on a consumer. It outlives the request that asked for it, and ends with the process.
func (r *rebuilds) begin(
	list map[string]*adminapi.Rebuild, name string,
	work func(report func(at, head eventstore.Position)) error,
) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if known := list[name]; known != nil && known.Error == "" {
		return adminapi.ErrRebuilding
	}
	current := &adminapi.Rebuild{StartedAt: time.Now().UTC()}
	list[name] = current
	r.models.running.Go(panics.Func("rebuild", func() {
		err := panics.Catch("rebuild", func() error {
			return work(func(at, head eventstore.Position) {
				r.mu.Lock()
				defer r.mu.Unlock()
				current.Done, current.Total = int64(at.Commit), int64(head.Commit) //nolint:gosec // positions fit an int64
			})
		})
		r.mu.Lock()
		defer r.mu.Unlock()
		switch {
		case err == nil:
			delete(list, name)
		case errors.Is(err, projections.ErrRebuilding):
			current.Error = "it is being rebuilt or verified already; try again later"
		default:
			current.Error = err.Error()
		}
	}))
	return nil
}

func (r *rebuilds) rebuild(m projections.ReadModel, report func(at, head eventstore.Position)) error {
	log := r.models.log.With("projection", m.Name)
	log.Info("rebuild begins")
	started := time.Now()
	err := r.models.runner.Rebuild(r.models.ctx, m, report)
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.lacks, m.Name)
	if leftOut, ok := errors.AsType[*projections.LeftOutError](err); ok {
		r.lacks[m.Name], err = leftOut.Error(), nil
	}
	if err != nil {
		log.Error("rebuild failed, the old read model goes on", "error", err)
		return err
	}
	log.Info("rebuild done", "took", time.Since(started).Round(time.Millisecond))
	return nil
}
