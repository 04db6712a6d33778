package app

import (
	"context"
	"io/fs"
	"net/netip"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/dev"
	"carillon/command/collect"
)

// system shows operators this process and its stores.
func (a *App) system(ctx context.Context) (console.System, error) {
	s := console.System{
		Version:    Version,
		Roles:      a.cfg.Roles,
		StartedAt:  a.startedAt,
		Settings:   a.cfg.Named(),
		Warnings:   a.warnings(),
		EventStore: console.Store{Where: a.cfg.EventStoreURL.String()},
		Database:   console.Store{Where: a.cfg.DatabaseURL.String()},
		Disk:       diskOf(a.cfg.DataDir),
	}
	if dir := a.storeDir(); dir != "" {
		s.EventStore = console.Store{Where: "embedded in the data directory", Bytes: sizeOf(dir)}
	}
	if a.cfg.DatabaseURL == "" {
		s.Database.Where = "private, in the data directory"
	}
	var err error
	s.Database.Bytes, err = a.Queries.DatabaseSize(ctx)
	return s, err
}

// storeDir returns the directory of the embedded event store, or nothing if the event store is elsewhere.
func (a *App) storeDir() string {
	if a.cfg.EventStoreURL != "" {
		return ""
	}
	return filepath.Join(a.cfg.DataDir, "eventstore")
}

// sizeOf adds up the files of a directory. Files that are removed meanwhile don't count.
func sizeOf(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil //nolint:nilerr // see above
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}

// diskOf looks at the disk of a directory.
func diskOf(dir string) console.Disk {
	disk := console.Disk{Path: dir}
	if whole, err := filepath.Abs(dir); err == nil {
		disk.Path = whole
	}
	var stat syscall.Statfs_t
	if syscall.Statfs(dir, &stat) == nil {
		//nolint:gosec,unconvert // disks are smaller; types differ between systems
		disk.Free, disk.Total = int64(stat.Bavail)*int64(stat.Bsize), int64(stat.Blocks)*int64(stat.Bsize)
	}
	return disk
}

// triers are the collectors that operators and organizations try sources with: they ask hosts with the
// pace that all processes share.
func (a *App) triers() (map[string]collect.Collector, error) {
	trials := a.collecting()
	trials.Parallel = trialRequests
	return Collectors(trials)
}

// collecting returns how this process collects: at the pace of hosts that all processes share.
func (a *App) collecting() Collecting {
	return Collecting{
		Contact:   a.cfg.CollectContact,
		Allow:     a.collectable(),
		Deny:      a.cfg.EgressDenyCIDRs,
		From:      a.cfg.EgressAddr,
		Files:     a.files,
		Hosts:     adapters.Hosts{Pool: a.base.pool},
		Now:       time.Now,
		Roots:     a.roots,
		Platforms: a.cfg.Platforms,
		Unhurried: a.Unhurried,
	}
}

// trialRequests is how many requests of trials are in flight at one time.
const trialRequests = 4

// collectable are the private ranges that collectors may reach.
func (a *App) collectable() []netip.Prefix {
	allow := []netip.Prefix(a.cfg.CollectAllowCIDRs)
	if a.cfg.Dev {
		allow = append(slices.Clone(allow), dev.Loopback...)
	}
	return allow
}
