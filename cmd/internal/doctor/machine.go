package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/backup"
	"carillon/cmd/internal/config"
)

const (
	lowSpace  = 10 << 30 // bytes; the event store refuses appends at 64 MiB
	noSpace   = 256 << 20
	slowSync  = 20 * time.Millisecond
	syncs     = 15
	oldBackup = 26 * time.Hour // a day, and time to make it
	// leastMemory is what a server at full speed takes, with its private Postgres.
	leastMemory = 512 << 20
)

func dataDirectory(_ context.Context, p *Patient) (string, error) {
	dir := p.Config.DataDir
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		dir = filepath.Dir(filepath.Clean(dir))
		if info, err = os.Stat(dir); err != nil {
			return "", fail("create it", "%s: its parent can't be used: %v", p.Config.DataDir, err)
		}
	case err != nil:
		return "", fail("point CARILLON_DATA_DIR to a directory that this user owns", "%v", err)
	}
	if !info.IsDir() {
		return "", fail("point CARILLON_DATA_DIR to a directory", "%s is a file", dir)
	}
	if err := errors.Join(p.Config.CheckOwners(), config.CheckWriter(p.Config.DataDir)); err != nil {
		return "", err
	}
	probe, err := os.CreateTemp(dir, ".doctor-*")
	if err != nil {
		return "", fail("let this user write there", "%v", err)
	}
	return p.Config.DataDir, errors.Join(probe.Close(), os.Remove(probe.Name()))
}

// existing returns the data directory, or the first directory above it that is there.
func existing(dir string) string {
	for dir = filepath.Clean(dir); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err == nil && info.IsDir() || dir == filepath.Dir(dir) {
			return dir
		}
	}
}

func diskSpace(_ context.Context, p *Patient) (string, error) {
	disk := app.DiskOf(existing(p.Config.DataDir))
	found := fmt.Sprintf("%d of %d MiB free", disk.Free>>20, disk.Total>>20)
	switch {
	case disk.Total == 0:
		return "", skip("the file system does not say")
	case disk.Free < noSpace:
		return "", fail("free space: appends are refused below 64 MiB", "%s", found)
	case disk.Free < lowSpace && disk.Free < disk.Total/10:
		return "", warn("free space, or set CARILLON_RETAIN_DELIVERIES and CARILLON_RETAIN_HAPPENINGS", "%s", found)
	}
	return found, nil
}

// syncTime measures what each acknowledged write waits for where the event store is in the data directory.
func syncTime(_ context.Context, p *Patient) (string, error) {
	if p.Config.EventStoreURL != "" {
		return "", skip("the event store is elsewhere")
	}
	file, err := os.CreateTemp(existing(p.Config.DataDir), ".doctor-*")
	if err != nil {
		return "", fail("let this user write there", "%v", err)
	}
	defer func() { _ = errors.Join(file.Close(), os.Remove(file.Name())) }()
	took, err := median(syncs, func() error {
		if _, err := file.Write(make([]byte, 4096)); err != nil {
			return err
		}
		if err := file.Sync(); err != nil {
			return fail("use a disk that can be synced: acknowledged events would be lost", "%v", err)
		}
		return nil
	})
	if err == nil && took > slowSync {
		err = warn("use a faster disk: each acknowledged write waits for it", "a sync takes %s", took)
	}
	return fmt.Sprintf("a sync takes %s", took), err
}

func openFiles(context.Context, *Patient) (string, error) {
	files, atOneTime, usually := app.RequestsAtOneTime()
	if atOneTime < usually {
		return "", warn("raise the limit: ulimit -n, or LimitNOFILE",
			"%d files may be open: %d webhooks at one time, where %d are usual", files, atOneTime, usually)
	}
	return fmt.Sprintf("%d files may be open", files), nil
}

// limitFiles are where Linux keeps the limit of memory of a container.
var limitFiles = []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}

func memory(context.Context, *Patient) (string, error) {
	for _, path := range limitFiles {
		text, err := os.ReadFile(path) //nolint:gosec // one of the two
		if err != nil {
			continue
		}
		limit, _ := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64) // 0: "max"
		switch {
		case limit == 0 || limit > 1<<50:
			return "no limit", nil
		case limit < leastMemory:
			return "", warn("give it 512 MiB, or the kernel may kill it", "the limit is %d MiB", limit>>20)
		}
		return fmt.Sprintf("the limit is %d MiB", limit>>20), nil
	}
	var info syscall.Rlimit
	if syscall.Getrlimit(syscall.RLIMIT_AS, &info) == nil && info.Cur < leastMemory {
		return "", warn("raise the limit: ulimit -v, or LimitAS", "the limit is %d MiB", info.Cur>>20)
	}
	return "no limit", nil
}

func backups(_ context.Context, p *Patient) (string, error) {
	if p.Backups == "" {
		return "", skip("name the directory of the newest one by --backup")
	}
	made, err := backup.ReadManifest(p.Backups)
	if err != nil {
		return "", fail(`make one: "carillon backup DIR"`, "%v", err)
	}
	age := p.Now().Sub(made.MadeAt).Round(time.Minute)
	if age > oldBackup {
		return "", warn("make one each day", "the newest is %s old", age)
	}
	return fmt.Sprintf("the newest is %s old", age), nil
}
