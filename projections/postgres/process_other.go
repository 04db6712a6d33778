//go:build unix && !linux

package postgres

import (
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
)

// watchParent reports whether a shell must stop the server when this process dies.
const watchParent = true

func dieWithParent(*syscall.SysProcAttr, syscall.Signal) {}

// isPostmaster reports whether the process is a living server on the cluster in data, by its command line.
func isPostmaster(pid int, data string) bool {
	out, err := exec.Command("ps", "-ww", "-o", "command=", "-p", strconv.Itoa(pid)).Output() //nolint:gosec // a number
	return err == nil && strings.Contains(string(out), "postgres") && strings.Contains(string(out), data)
}

// sessions returns the living processes of the user that a server with the given cluster name has started.
func sessions(name string, uid int) ([]int, error) {
	out, err := exec.Command("ps", "-axww", "-o", "pid=", "-o", "uid=", "-o", "command=").Output()
	if err != nil {
		return nil, fmt.Errorf("ps: %w", err)
	}
	var pids []int
	for line := range strings.Lines(string(out)) {
		fields := strings.Fields(line)
		if len(fields) < 3 || fields[1] != strconv.Itoa(uid) || !isSession(strings.Join(fields[2:], " "), name) {
			continue
		}
		if pid, err := strconv.Atoi(fields[0]); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
