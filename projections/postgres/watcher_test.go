//go:build unix

package postgres

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// If the kernel doesn't stop the server with its parent, a shell does.
func TestWatcher(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	victim := func() (*exec.Cmd, chan error) {
		cmd := exec.Command("/bin/sh", "-c", `trap 'exit 7' INT; while :; do sleep 0.01; done`)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		ended := make(chan error, 1)
		go func() { ended <- cmd.Wait() }()
		t.Cleanup(func() { _ = cmd.Process.Kill() })
		return cmd, ended
	}

	first, ended := victim()
	gone := filepath.Join(dir, "gone")
	if err := os.Mkdir(gone, 0o700); err != nil {
		t.Fatal(err)
	}
	// The shell may get the signal before its trap stands; both ways it ends.
	w, err := watch(syscall.SIGINT, first.Process.Pid, filepath.Join(dir, "none"), gone)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.alive.Close(); err != nil { // as the kernel does when this process dies
		t.Fatal(err)
	}
	if err := <-ended; err == nil {
		t.Error("the watched process ended by itself")
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("watcher: %v", err)
	}
	if _, err := os.Stat(gone); !os.IsNotExist(err) {
		t.Errorf("the directory: %v", err)
	}

	second, ended := victim()
	if w, err = watch(syscall.SIGINT, second.Process.Pid, "none"); err != nil {
		t.Fatal(err)
	}
	if err := w.dismiss(); err != nil {
		t.Error(err)
	}
	select {
	case err := <-ended:
		t.Errorf("a dismissed watcher stopped the process: %v", err)
	default:
	}
}
