package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/command/collect"
	"carillon/command/collect/fetch"
	"carillon/command/collect/site"
	"carillon/command/collection"
	"carillon/command/egress"
)

// startCollection runs the monitor that visits sources.
func (a *App) startCollection(s *stage) error {
	if !a.cfg.Is(config.RoleCollect) {
		return nil
	}
	policy := egress.Policy{Allow: a.cfg.CollectAllowCIDRs}
	if a.cfg.Dev {
		policy.Allow = append(slices.Clone(policy.Allow), dev.Loopback...)
	}
	fetcher, err := fetch.New(fetch.Options{
		Transport: egress.NewTransport(policy, egress.Options{}),
		Blocked:   func(err error) bool { return errors.Is(err, egress.ErrBlocked) },
		UserAgent: fetch.UserAgent(Version, ""),
		Hosts:     adapters.Hosts{Pool: a.base.pool},
	})
	if err != nil {
		return err
	}
	locks := adapters.NewSourceLocks(a.base.pool)
	monitor := &collection.Monitor{
		Recorder:   collection.Recorder{Store: a.base.store, Now: time.Now, Log: a.log},
		Schedule:   adapters.SourceSchedule{Queries: a.Queries},
		Locks:      locks,
		Collectors: map[string]collect.Collector{site.Type: site.New(fetcher, time.Now)},
	}
	s.run(func(ctx context.Context) error {
		defer locks.Close()
		monitor.Run(ctx)
		return nil
	})
	return nil
}
