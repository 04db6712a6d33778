package app

import (
	"context"
	"crypto/x509"
	"errors"
	"net/netip"
	"slices"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
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

// collecting visits sources.
type collecting struct {
	*part
	readModels *readModels
	trials     map[string]collect.Collector // those that operators and organizations try sources with
	monitor    *visiting.Monitor            // nil if the process visits none
}

func newCollecting(m *readModels) (*collecting, error) {
	c := &collecting{part: m.newPart(), readModels: m}
	c.Metrics.MustRegister(scraped(c.readWaiting))
	options, err := c.options()
	if err != nil {
		return nil, err
	}
	trials := options
	trials.Parallel = trialRequests
	if c.trials, err = Collectors(trials); err != nil || !c.cfg.Is(config.RoleCollect) {
		return c, err
	}
	metrics, backlog := c.newCollectMetrics(), &visiting.Backlog{}
	options.Answered, options.Room = metrics.answered, backlog.Wait
	collectors, err := Collectors(options)
	walks := adapters.NewWalks(m.stores.pool)
	walks.Log = c.log
	c.monitor = &visiting.Monitor{
		Store:      m.stores.store,
		Now:        m.stores.clock.Now,
		Log:        c.log,
		Walks:      walks,
		Collectors: collectors,
		Visited:    metrics.visited,
		Found:      metrics.found,
		Backlog:    backlog,
		Reach:      m.stores.storeReach,
		Keep:       c.cfg.RetainHappenings,
	}
	return c, err
}

func (c *collecting) start() {
	if c.monitor != nil {
		c.keep("visits", c.monitor.Run)
	}
}

// trialRequests is how many requests of trials are in flight at one time.
const trialRequests = 4

// options returns how this process collects: at the pace of hosts that all processes share.
func (c *collecting) options() (options Collecting, err error) {
	options = Collecting{
		Contact:     c.cfg.CollectContact,
		Allow:       c.cfg.CollectAllowCIDRs,
		Deny:        c.cfg.EgressDenyCIDRs,
		From:        c.cfg.EgressAddr,
		Files:       c.files,
		Hosts:       adapters.Hosts{Pool: c.readModels.stores.pool},
		Now:         time.Now,
		Platforms:   c.cfg.Platforms,
		NoHostDelay: c.cfg.NoHostDelay,
	}
	if c.cfg.Dev {
		options.Allow = append(slices.Clone(options.Allow), dev.Loopback...)
	}
	options.Roots, err = c.cfg.EgressRoots(nil)
	return options, err
}

// Collecting holds the dependencies of collectors.
type Collecting struct {
	Allow       []netip.Prefix              // private ranges that may be reached
	Deny        []netip.Prefix              // ranges that may not be, whatever is allowed
	Files       *egress.Files               // see egress.Options; may be nil
	From        []netip.Addr                // see egress.Options
	Roots       *x509.CertPool              // see egress.Options; may be nil
	Hosts       fetch.Hosts                 // shared by all who collect; nil means for this process alone
	Parallel    int                         // requests at one time; 0: 64
	Room        func(context.Context) error // see fetch.Options; may be nil
	NoHostDelay bool                        // the host is the user's own: there is no pace to keep
	Now         func() time.Time
	Platforms   config.Platforms
	Window      timing.Window                            // of endless recurrences; the zero one: around now
	Contact     string                                   // for the owners of sites, see config.CheckContact
	Answered    func(outcome string, took time.Duration) // optional; called for each request
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
	if c.NoHostDelay {
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
