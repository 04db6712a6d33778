package app

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/command/collect"
	"carillon/command/collect/fetch"
	"carillon/command/collect/site"
	"carillon/command/collect/sitemap"
	"carillon/command/collect/timing"
	"carillon/command/collection"
	"carillon/command/egress"
)

// startCollection runs the monitor that visits sources.
func (a *App) startCollection(s *stage) error {
	if !a.cfg.Is(config.RoleCollect) {
		return nil
	}
	allow := []netip.Prefix(a.cfg.CollectAllowCIDRs)
	if a.cfg.Dev {
		allow = append(slices.Clone(allow), dev.Loopback...)
	}
	collectors, err := Collectors(Collecting{Allow: allow, Hosts: adapters.Hosts{Pool: a.base.pool}, Now: time.Now})
	if err != nil {
		return err
	}
	monitor := &collection.Monitor{
		Store: a.base.store, Now: time.Now, Log: a.log, Walks: adapters.NewWalks(a.base.pool), Collectors: collectors,
	}
	s.run(func(ctx context.Context) error {
		monitor.Run(ctx)
		return nil
	})
	return nil
}

// Collecting is what collectors need.
type Collecting struct {
	Allow     []netip.Prefix // private ranges that may be reached
	Hosts     fetch.Hosts    // shared by all who collect; nil: for this process alone
	Unhurried bool           // the host is the user's own: there is no pace to keep
	Now       func() time.Time
	Window    timing.Window // of what has no end; the zero one: around now
}

// Collectors are those that this version has, by source type.
func Collectors(c Collecting) (map[string]collect.Collector, error) {
	options := fetch.Options{
		Transport: egress.NewTransport(egress.Policy{Allow: c.Allow}, egress.Options{}),
		Blocked:   func(err error) bool { return errors.Is(err, egress.ErrBlocked) },
		UserAgent: fetch.UserAgent(Version, ""),
		Hosts:     c.Hosts,
	}
	if c.Unhurried {
		options.Interval = -1
	}
	fetcher, err := fetch.New(options)
	if err != nil {
		return nil, err
	}
	pages := site.New(fetcher, c.Now)
	if c.Window != (timing.Window{}) {
		pages = site.Within(fetcher, c.Window)
	}
	return map[string]collect.Collector{
		site.Type:    pages,
		sitemap.Type: sitemap.New(fetcher, pages),
	}, nil
}
