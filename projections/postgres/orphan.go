//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// stopOrphan ends the server that a killed predecessor may have left on the cluster: fast shutdown first, then an
// immediate one, then a kill. The caller holds the lock of the directory, so no living process wants that server.
func stopOrphan(ctx context.Context, data string, logger *slog.Logger) error {
	pidFile := filepath.Join(data, "postmaster.pid")
	pid, err := readPID(pidFile)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if pid == 0 || !isPostmaster(pid, data) {
		if err := killSessions(ctx, filepath.Dir(data), ownerOf(data)); err != nil {
			return err
		}
		// The number may belong to some other process by now. Postgres would take that one for a server and refuse to
		// start, as it does when a crash has left the file empty; otherwise it sees to the file itself.
		if pid == 0 || syscall.Kill(pid, 0) == nil {
			if err := os.Remove(pidFile); err != nil && !errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("remove the stale postmaster.pid: %w", err)
			}
		}
		return nil
	}
	logger.Warn("stopping the postgres server that a killed process left running", "pid", pid)
	for _, step := range []struct {
		signal   syscall.Signal
		patience time.Duration
	}{{syscall.SIGINT, 30 * time.Second}, {syscall.SIGQUIT, 6 * time.Second}, {syscall.SIGKILL, 5 * time.Second}} {
		if err := syscall.Kill(pid, step.signal); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop the left postgres server (process %d): %w", pid, err)
		}
		if gone, err := waitGone(ctx, pid, data, step.patience); err != nil || gone {
			return err
		}
	}
	return fmt.Errorf("the postgres server that a killed process left running (process %d) can't be stopped", pid)
}

func waitGone(ctx context.Context, pid int, data string, patience time.Duration) (bool, error) {
	gone, err := until(ctx, patience, func() (bool, error) { return !isPostmaster(pid, data), nil })
	if err != nil {
		return false, fmt.Errorf("wait for the left postgres server: %w", err)
	}
	return gone, nil
}

// until polls until a condition holds, and reports false if it did not before patience ended.
func until(ctx context.Context, patience time.Duration, holds func() (bool, error)) (bool, error) {
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	poll := time.NewTicker(5 * time.Millisecond)
	defer poll.Stop()
	for {
		if held, err := holds(); held || err != nil {
			return held, err
		}
		select {
		case <-ctx.Done():
			return false, ctx.Err()
		case <-deadline.C:
			return false, nil
		case <-poll.C:
		}
	}
}

// clusterName is shown in the titles of the processes of a home's server.
func clusterName(home string) string { return "carillon-" + shortHash(home) }

func isSession(title, name string) bool { return strings.HasPrefix(title, "postgres: "+name+": ") }

// killSessions ends the processes of a server that is dead itself. Most notice by themselves that it is, but one with a
// query at work goes on until that is done, and holds the shared memory which keeps a new server from starting.
func killSessions(ctx context.Context, home string, uid int) error {
	var pids []int
	gone, err := until(ctx, 10*time.Second, func() (bool, error) {
		var err error
		if pids, err = sessions(clusterName(home), uid); err != nil {
			return false, fmt.Errorf("look for them: %w", err)
		}
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
				return false, fmt.Errorf("process %d: %w", pid, err)
			}
		}
		return len(pids) == 0, nil
	})
	switch {
	case err != nil:
		return fmt.Errorf("end the processes of the dead postgres server: %w", err)
	case !gone:
		return fmt.Errorf("processes %v of the dead postgres server can't be ended", pids)
	}
	return nil
}

// readPID returns the first number in a postmaster.pid; 0 when a crash has cut the file short.
func readPID(path string) (int, error) {
	text, err := os.ReadFile(path) //nolint:gosec // our own directory
	if err != nil {
		return 0, fmt.Errorf("look for a left postgres server: %w", err)
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	if err != nil || pid <= 1 {
		return 0, nil //nolint:nilerr // see above
	}
	return pid, nil
}
