//go:build unix

package postgres

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"carillon/eventstore/durable"
)

// unfinished is the name that a cluster has until it is complete.
const unfinished = "pgdata.unfinished-*"

// ensureCluster makes the cluster in home/pgdata unless it is there. A new cluster is made under another name and then
// renamed, so that a crash in the middle leaves nothing that looks like one.
func ensureCluster(ctx context.Context, home string, run account, bin Binaries, cfg Config) error {
	data := filepath.Join(home, "pgdata")
	if err := dropUnfinished(ctx, home); err != nil {
		return err
	}
	if major, err := clusterVersion(data); err != nil || major != 0 {
		if err == nil && run.drop && ownerOf(data) == 0 {
			err = giveTree(data, run) // restored from a backup by root
		}
		return err
	}
	if entries, err := os.ReadDir(data); err == nil && len(entries) > 0 {
		return fmt.Errorf("%s is neither empty nor a postgres cluster (it has no PG_VERSION): move it away", data)
	}
	fresh, err := os.MkdirTemp(home, unfinished) // of mode 0700, as Postgres demands
	if err != nil {
		return fmt.Errorf("make the postgres cluster: %w", err)
	}
	if err := run.give(fresh); err != nil {
		return err
	}
	if err := fillCluster(ctx, fresh, run, bin, cfg); err != nil {
		return errors.Join(fmt.Errorf("make the postgres cluster: %w", err), os.RemoveAll(fresh))
	}
	if err := os.Rename(fresh, data); err != nil {
		return fmt.Errorf("make the postgres cluster: %w", err)
	}
	if cfg.Disposable {
		return nil
	}
	return durable.SyncDir(home)
}

// dropUnfinished removes what a crash in the middle of initdb left.
func dropUnfinished(ctx context.Context, home string) error {
	left, err := filepath.Glob(filepath.Join(home, unfinished))
	if err != nil {
		return fmt.Errorf("look for an unfinished cluster: %w", err)
	}
	for _, dir := range left {
		if err := removeBusy(ctx, dir); err != nil {
			return fmt.Errorf("remove an unfinished cluster: %w", err)
		}
	}
	return nil
}

// removeBusy removes a directory into which a process that is about to end may still write: the backend that initdb
// started goes on until it sees that initdb is gone.
func removeBusy(ctx context.Context, dir string) error {
	var busy error
	removed, err := until(ctx, 10*time.Second, func() (bool, error) {
		if busy = os.RemoveAll(dir); errors.Is(busy, syscall.ENOTEMPTY) {
			return false, nil
		}
		return busy == nil, busy
	})
	if err == nil && !removed {
		return busy
	}
	return err
}

// fillCluster copies the template into dir if there is one, else runs initdb and keeps the result as the template.
func fillCluster(ctx context.Context, dir string, run account, bin Binaries, cfg Config) error {
	if cfg.Template == "" {
		return initCluster(ctx, dir, run, bin, cfg)
	}
	template := filepath.Join(cfg.Template, shortHash(strings.Join(append(initArgs(cfg), bin.Dir, bin.Version), "\x00")))
	if major, err := clusterVersion(template); err == nil && major == bin.Major {
		if err := copyTree(template, dir); err != nil {
			return err
		}
		return giveTree(dir, run)
	}
	if err := initCluster(ctx, dir, run, bin, cfg); err != nil {
		return err
	}
	// The template saves time, no more: without it the next cluster takes longer.
	if err := saveTemplate(dir, template); err != nil {
		cfg.Logger.Warn("postgres template not kept", "error", err)
	}
	return nil
}

func saveTemplate(dir, template string) error {
	if err := os.MkdirAll(filepath.Dir(template), 0o700); err != nil {
		return err
	}
	fresh, err := os.MkdirTemp(filepath.Dir(template), unfinished)
	if err != nil {
		return err
	}
	if err := copyTree(dir, fresh); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	err = os.Rename(fresh, template)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, syscall.ENOTEMPTY) {
		return os.RemoveAll(fresh) // another process was faster
	}
	return err
}

func initArgs(cfg Config) []string {
	args := []string{
		"--username=" + role, "--auth-local=peer", "--auth-host=reject", "--encoding=UTF8", "--lc-collate=C",
		"--lc-messages=C", "--lc-monetary=C", "--lc-numeric=C", "--lc-time=C",
	}
	if cfg.Disposable {
		return append(args, "--no-sync", "--wal-segsize=4") // small to copy
	}
	return append(args, "--data-checksums")
}

// initCluster runs initdb. Text sorts by code point, which no update of the system's locales can change under an index;
// upper and lower case are those of Unicode if the system has such a locale.
func initCluster(ctx context.Context, dir string, run account, bin Binaries, cfg Config) error {
	unicode := "C.UTF-8"
	if runtime.GOOS != "linux" {
		unicode = "UTF-8"
	}
	err := runInit(ctx, dir, run, bin, append(initArgs(cfg), "--lc-ctype="+unicode))
	var failed *initError
	if errors.As(err, &failed) && strings.Contains(failed.output, "invalid locale name") {
		err = runInit(ctx, dir, run, bin, append(initArgs(cfg), "--lc-ctype=C"))
	}
	return err
}

type initError struct {
	err    error
	output string
}

func (e *initError) Error() string {
	return fmt.Sprintf("initdb: %v: %s", e.err, lastLines(e.output, 10))
}
func (e *initError) Unwrap() error { return e.err }

func runInit(ctx context.Context, dir string, run account, bin Binaries, args []string) error {
	cmd := run.command(ctx, dir, bin.program("initdb"), append(args, "--pgdata="+dir)...)
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGINT) } // it stops what it started, and cleans up
	cmd.WaitDelay = 10 * time.Second
	dieWithParent(cmd.SysProcAttr, syscall.SIGINT)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	// The death of the starting thread would count as that of the parent.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := cmd.Run(); err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		return &initError{err: err, output: out.String()}
	}
	return nil
}

// copyTree copies the files below from into the existing directory to, with their modes.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil || rel == "." {
			return err
		}
		if entry.IsDir() {
			return os.Mkdir(filepath.Join(to, rel), 0o700)
		}
		return copyFile(path, filepath.Join(to, rel))
	})
}

func copyFile(from, to string) (err error) {
	src, err := os.Open(from) //nolint:gosec // below our own directories
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, src.Close()) }()
	dst, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // below our own directories
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	_, err = io.Copy(dst, src)
	return err
}

// giveTree makes the account the owner of dir and all below it.
func giveTree(dir string, run account) error {
	if !run.drop {
		return nil
	}
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return run.give(path)
	})
}

func lastLines(text string, n int) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return strings.Join(lines[max(0, len(lines)-n):], "\n")
}
