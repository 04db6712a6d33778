//go:build unix

package postgres

import (
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"syscall"
)

// watchScript waits until its standard input ends, which is when this process is gone, however it went. Then it stops
// the server, and when directories are given, waits for its end and removes them. The dead server's postmaster.pid is
// gone before its process number is, if no caller waits for the process.
const watchScript = `
trap '' HUP INT QUIT TERM
while read -r _; do :; done
sig=$1 pid=$2 pidfile=$3
shift 3
kill -s "$sig" "$pid" 2>/dev/null
[ $# -gt 0 ] || exit 0
n=0
while [ -e "$pidfile" ] && kill -0 "$pid" 2>/dev/null && [ "$n" -lt 250 ]; do
	sleep 0.02
	n=$((n + 1))
done
rm -rf -- "$@"
`

// watcher is a shell that outlives this process just long enough to stop its server.
type watcher struct {
	cmd   *exec.Cmd
	alive io.Closer // the end of the pipe that only this process holds
}

// watch starts a watcher for the server with the given process number.
func watch(sig syscall.Signal, pid int, pidFile string, remove ...string) (*watcher, error) {
	name, err := signalName(sig)
	if err != nil {
		return nil, err
	}
	args := append([]string{"-c", watchScript, "carillon-postgres-watch", name, strconv.Itoa(pid), pidFile}, remove...)
	cmd := exec.Command("/bin/sh", args...) //nolint:gosec,noctx // a fixed script, which outlives every call
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // a signal to the terminal's processes must not reach it
	alive, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("watch over postgres: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("watch over postgres: %w", err)
	}
	return &watcher{cmd: cmd, alive: alive}, nil
}

func signalName(sig syscall.Signal) (string, error) {
	switch sig {
	case 0:
		return "0", nil
	case syscall.SIGINT:
		return "INT", nil
	case syscall.SIGQUIT:
		return "QUIT", nil
	default:
		return "", fmt.Errorf("watch over postgres: unknown signal %v", sig)
	}
}

// dismiss ends the watcher without letting it act. The server must be gone by then.
func (w *watcher) dismiss() error {
	if w == nil {
		return nil
	}
	err := w.cmd.Process.Kill()
	var exit *exec.ExitError
	if waitErr := w.cmd.Wait(); !errors.As(waitErr, &exit) {
		err = errors.Join(err, waitErr)
	}
	return err
}
