package app

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"carillon/cmd/internal/console"
)

// system shows operators this process and its stores.
func (s *servers) system(ctx context.Context) (console.System, error) {
	system := console.System{
		Version:    Version,
		Roles:      s.cfg.Roles,
		StartedAt:  s.startedAt,
		Settings:   s.cfg.Named(),
		Warnings:   s.warnings(),
		EventStore: console.Store{Where: s.cfg.EventStoreURL.String()},
		Database:   console.Store{Where: s.cfg.DatabaseURL.String()},
		Disk:       DiskOf(s.cfg.DataDir),
	}
	if dir := s.storeDir(); dir != "" {
		system.EventStore = console.Store{Where: "embedded in the data directory", Bytes: sizeOf(dir)}
	}
	if s.cfg.DatabaseURL == "" {
		system.Database.Where = "private, in the data directory"
	}
	var err error
	system.Database.Bytes, err = s.readModels.queries.DatabaseSize(ctx)
	return system, err
}

// storeDir returns the directory of the embedded event store, or nothing if the event store is elsewhere.
func (p *process) storeDir() string {
	if p.cfg.EventStoreURL != "" {
		return ""
	}
	return filepath.Join(p.cfg.DataDir, "eventstore")
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

// DiskOf looks at the disk of a directory.
func DiskOf(dir string) console.Disk {
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

const (
	// memoryLimit is the default of GOMEMLIMIT: a server at full speed stays at about 200 MB.
	memoryLimit = 168 << 20
	// gcPercent is the default of GOGC. The live heap is small, so there is room below the limit for fewer collections.
	gcPercent = 400
)

// LimitMemory sets the defaults of GOMEMLIMIT and GOGC for a server.
func LimitMemory() {
	if os.Getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(memoryLimit)
	}
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(gcPercent)
	}
}
