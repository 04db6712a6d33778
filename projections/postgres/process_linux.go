package postgres

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// watchParent reports whether a shell must stop the server when this process dies. On Linux the kernel does.
const watchParent = false

// dieWithParent makes the kernel send sig to the new process when the thread that starts it ends. The kernel forgets it
// if the process changes its user later on; os/exec sets it after the change.
func dieWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// isPostmaster reports whether the process is a living server on the cluster in data, by its command line, which every
// user may read (unlike its working directory, even as root in a container without CAP_SYS_PTRACE). That of a zombie is
// empty.
func isPostmaster(pid int, data string) bool {
	args := commandLine(pid)
	return strings.HasPrefix(filepath.Base(args[0]), "postgres") && slices.Contains(args, data)
}

func commandLine(pid int) []string {
	line, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
	if err != nil {
		return []string{""}
	}
	return strings.Split(string(line), "\x00")
}

// sessions returns the living processes of the user that a server with the given cluster name has started.
func sessions(name string, uid int) ([]int, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var pids []int
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue // not a process
		}
		if isSession(commandLine(pid)[0], name) && ownerOf(filepath.Join("/proc", entry.Name())) == uid {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}
