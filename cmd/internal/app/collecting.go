package app

import (
	"context"
	"crypto/x509"
	"errors"
	"net/netip"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/sources/facebook"
	"carillon/command/collect/sources/instagram"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/platform"
	"carillon/command/collect/sources/site"
	"carillon/command/collect/sources/sitemap"
	"carillon/command/collect/sources/tiktok"
	"carillon/command/collect/sources/twitter"
	"carillon/command/egress"
	"carillon/command/visiting"
	"carillon/command/webhook"
)

// startCollection runs the monitor that visits sources.
func (a *App) startCollection(s *stage) error {
	if !a.cfg.Is(config.RoleCollect) {
		return nil
	}
	metrics, backlog := a.newCollectMetrics(), &visiting.Backlog{}
	visits := a.collecting()
	visits.Answered, visits.Room = metrics.answered, backlog.Wait
	collectors, err := Collectors(visits)
	if err != nil {
		return err
	}
	walks := adapters.NewWalks(a.base.pool)
	walks.Log = a.log
	monitor := &visiting.Monitor{
		Store:      a.base.store,
		Now:        a.clock.Now,
		Log:        a.log,
		Walks:      walks,
		Collectors: collectors,
		Visited:    metrics.visited,
		Found:      metrics.found,
		Backlog:    backlog,
		Reach:      a.storeReach,
		Keep:       a.cfg.RetainHappenings,
	}
	s.keep("visits", monitor.Run)
	return nil
}

// Collecting holds the dependencies of collectors.
type Collecting struct {
	Allow     []netip.Prefix              // private ranges that may be reached
	Deny      []netip.Prefix              // ranges that may not be, whatever is allowed
	Files     *egress.Files               // see egress.Options; may be nil
	From      []netip.Addr                // see egress.Options
	Roots     *x509.CertPool              // see egress.Options; may be nil
	Hosts     fetch.Hosts                 // shared by all who collect; nil means for this process alone
	Parallel  int                         // requests at one time; 0: 64
	Room      func(context.Context) error // see fetch.Options; may be nil
	Unhurried bool                        // the host is the user's own: there is no pace to keep
	Now       func() time.Time
	Platforms config.Platforms
	Window    timing.Window                            // of endless recurrences; the zero one: around now
	Contact   string                                   // for the owners of sites, see config.CheckContact
	Answered  func(outcome string, took time.Duration) // optional; called for each request
}

// Collectors are those that this version has, by source type.
func Collectors(c Collecting) (map[string]collect.Collector, error) {
	options := fetch.Options{
		Transport: egress.NewTransport(egress.Policy{Allow: c.Allow, Deny: c.Deny}, egress.Options{
			From:    c.From,
			Files:   c.Files,
			RootCAs: c.Roots,
		}),
		Blocked:   func(err error) bool { return errors.Is(err, egress.ErrBlocked) },
		Explain:   webhook.Explain,
		UserAgent: fetch.UserAgent(Version, config.ContactURL(c.Contact)),
		Hosts:     c.Hosts,
		Parallel:  c.Parallel,
		Room:      c.Room,
		Answered:  c.Answered,
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
	collectors := map[string]collect.Collector{
		site.Type:    pages,
		sitemap.Type: sitemap.New(fetcher, pages),
		listing.Type: listing.New(pages),
	}
	if err := c.addPlatforms(collectors, options); err != nil {
		return nil, err
	}
	return collectors, nil
}

// addPlatforms adds the collectors of accounts. One without credentials is there as well, and says so.
func (c *Collecting) addPlatforms(collectors map[string]collect.Collector, o fetch.Options) error {
	tokens, err := c.Platforms.Credentials()
	if err != nil {
		return err
	}
	window := func() timing.Window {
		if c.Window != (timing.Window{}) {
			return c.Window
		}
		return timing.WindowAt(c.Now())
	}
	at := func(sourceType string) platform.Options {
		return platform.Options{
			Base:      c.Platforms.Bases[sourceType],
			Transport: o.Transport,
			Blocked:   o.Blocked,
			Explain:   o.Explain,
			UserAgent: o.UserAgent,
			Hosts:     c.Hosts,
			Now:       c.Now,
			Answered:  c.Answered,
		}
	}
	collectors[facebook.Type] = facebook.New(tokens.Facebook, window, at(facebook.Type))
	collectors[instagram.Type] = instagram.New(tokens.Instagram, tokens.InstagramAccount, window, at(instagram.Type))
	collectors[tiktok.Type] = tiktok.New(tokens.TikTok, window, at(tiktok.Type))
	collectors[twitter.Type] = twitter.New(tokens.Twitter, window, at(twitter.Type))
	return nil
}
