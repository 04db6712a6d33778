//go:build unix

package postgres

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"syscall"
)

// ErrNoAccount reports that there is no user that a server could run as.
var ErrNoAccount = errors.New("no user to run postgres as")

// account is the operating system user that the server runs as.
type account struct {
	name     string
	uid, gid int
	drop     bool // the caller is root and the server must not be
}

// serverAccount chooses the user of the server: the caller, unless that is root; for root the owner of an existing
// cluster (owner >= 0), else the user that was asked for, else postgres, else nobody.
func serverAccount(asked string, owner int) (account, error) {
	if os.Geteuid() != 0 {
		return callerAccount(owner)
	}
	if owner > 0 {
		u, err := user.LookupId(strconv.Itoa(owner))
		if err != nil {
			return account{}, fmt.Errorf("the cluster belongs to user id %d, which this machine does not know"+
				" (chown it to a user that exists): %w", owner, err)
		}
		return droppedAccount(u)
	}
	names := []string{"postgres", "nobody"}
	if asked != "" {
		names = []string{asked}
	}
	var tried []error
	for _, name := range names {
		u, err := user.Lookup(name)
		if err != nil {
			tried = append(tried, err)
			continue
		}
		return droppedAccount(u)
	}
	return account{}, fmt.Errorf("%w: it refuses root, and there is no other"+
		" (run carillon as an ordinary user, or add a user named postgres): %w", ErrNoAccount, errors.Join(tried...))
}

func callerAccount(owner int) (account, error) {
	uid := os.Geteuid()
	if owner >= 0 && owner != uid {
		return account{}, fmt.Errorf("the cluster belongs to user id %d and this process runs as user id %d"+
			" (run carillon as the same user as before)", owner, uid)
	}
	name, err := callerName()
	return account{name: name, uid: uid, gid: os.Getegid()}, err
}

func droppedAccount(u *user.User) (account, error) {
	uid, err := strconv.Atoi(u.Uid)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	if uid == 0 {
		return account{}, fmt.Errorf("postgres refuses to run as root, and user %s is root", u.Username)
	}
	gid, err := strconv.Atoi(u.Gid)
	if err != nil {
		return account{}, fmt.Errorf("user %s: %w", u.Username, err)
	}
	return account{
		name: u.Username,
		uid:  uid,
		gid:  gid,
		drop: true,
	}, nil
}

// callerName is the name that peer authentication sees for this process.
func callerName() (string, error) {
	u, err := user.LookupId(strconv.Itoa(os.Geteuid()))
	if err != nil {
		return "", fmt.Errorf("%w: user id %d has no name in /etc/passwd (add it, or run as another user): %w", ErrNoAccount,
			os.Geteuid(), err)
	}
	return u.Username, nil
}

// command prepares a program of Postgres to run in dir as the account, out of reach of the terminal's Ctrl-C and with
// none of the PG* variables of the caller.
func (a account) command(ctx context.Context, dir, program string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Dir = dir
	cmd.Env = []string{"LC_ALL=C", "PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + dir}
	for _, name := range []string{"LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH"} {
		if v, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+v)
		}
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if a.drop {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(a.uid), Gid: uint32(a.gid)} //nolint:gosec // ids fit
	}
	return cmd
}

// give makes the account the owner of path; nothing to do unless root runs the server as another user.
func (a account) give(path string) error {
	if !a.drop {
		return nil
	}
	if err := os.Lchown(path, a.uid, a.gid); err != nil {
		return fmt.Errorf("give %s to user %s: %w", path, a.name, err)
	}
	return nil
}

// ownerOf returns the user id that owns path, and -1 if there is none.
func ownerOf(path string) int {
	info, err := os.Lstat(path)
	if err != nil {
		return -1
	}
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return -1
	}
	return int(st.Uid)
}
