package listen

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"carillon/eventstore/durable"
)

const (
	maxPlaces = 4 // listeners of one user on one machine at a time
	turnPause = 50 * time.Millisecond
)

// place is the right to one externalId. The kernel takes the lock back from a process that was killed, so that the next
// one removes what it left.
type place struct {
	externalID string
	release    func()
}

var notInExternalID = regexp.MustCompile(`[^A-Za-z0-9._:-]+`)

// takePlace locks the first free place, and removes the destinations of all places that no process has. Of several
// processes one does so at a time: the places that it looks through would not be free for the others.
func (l *listener) takePlace(ctx context.Context) (taken *place, err error) {
	turnOver, err := l.awaitTurn(ctx)
	if err != nil {
		return nil, err
	}
	defer turnOver()
	for i := range maxPlaces {
		p, err := l.lockPlace(i)
		if errors.Is(err, durable.ErrLocked) {
			continue
		}
		if err == nil {
			if err = l.remove(ctx, p.externalID); err == nil && taken == nil {
				taken = p
				continue
			}
			p.release()
		}
		if err != nil {
			if taken != nil {
				taken.release()
			}
			return nil, err
		}
	}
	if taken == nil {
		return nil, fmt.Errorf("%d listeners of this user are running: stop one", maxPlaces)
	}
	return taken, nil
}

// awaitTurn waits until no other process takes a place at the server.
func (l *listener) awaitTurn(ctx context.Context) (over func(), err error) {
	for {
		over, err := l.lock("turn")
		if !errors.Is(err, durable.ErrLocked) {
			return over, err
		}
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-time.After(turnPause):
		}
	}
}

// lockPlace fails with durable.ErrLocked if another process has the place.
func (l *listener) lockPlace(i int) (*place, error) {
	name, host := "user", "host"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if known, err := os.Hostname(); err == nil {
		host = known
	}
	machine, err := l.machine()
	if err != nil {
		return nil, err
	}
	externalID := notInExternalID.ReplaceAllString(fmt.Sprintf("listen.%s.%s.%s.%d", name, host, machine, i+1), "-")
	unlock, err := l.lock(externalID)
	if err != nil {
		return nil, err
	}
	return &place{externalID: externalID, release: unlock}, nil
}

// lock locks a name of this user at the server, and fails with durable.ErrLocked if another process has it.
func (l *listener) lock(name string) (unlock func(), err error) {
	of := sha256.Sum256([]byte(serverAt(l.API.Base()) + "\n" + name))
	dir, err := l.userDir(os.Getenv("XDG_RUNTIME_DIR"))
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	file := filepath.Join(dir, fmt.Sprintf("listen-%x", of[:8]))
	made, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600) //nolint:gosec // named by a hash
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	unlock, err = durable.Lock(file)
	return unlock, errors.Join(err, made.Close())
}

// serverAt returns an address with one name for this machine, so that two spellings share places.
func serverAt(base string) string {
	u, err := url.Parse(base)
	if err != nil {
		return base
	}
	if ip := net.ParseIP(u.Hostname()); u.Hostname() == "localhost" || ip.IsLoopback() {
		return "localhost:" + u.Port()
	}
	return base
}

// machine returns a name of this user's machine, made at the first call: others may have the same host and user, as
// containers and new laptops do, and would take its destinations for those that it has left.
func (l *listener) machine() (string, error) {
	dir, err := l.userDir("")
	if err != nil {
		return "", fmt.Errorf("name this machine: %w", err)
	}
	file := filepath.Join(dir, "listen-machine")
	known, err := os.ReadFile(file) //nolint:gosec // the user's own directory
	if errors.Is(err, fs.ErrNotExist) {
		made := file + "." + rand.Text()
		err = os.WriteFile(made, []byte(strings.ToLower(rand.Text()[:8])), 0o600)
		if err == nil {
			_ = os.Link(made, file)        // the first of several counts
			known, err = os.ReadFile(file) //nolint:gosec // as above
			_ = os.Remove(made)
		}
	}
	if err != nil {
		return "", fmt.Errorf("name this machine: %w", err)
	}
	return string(known), nil
}

// userDir returns a directory that is this user's alone, so that no other one can keep a place: the preferred one, or
// one that stays after a restart of the machine.
func (l *listener) userDir(preferred string) (string, error) {
	if l.LockDir != "" {
		return l.LockDir, nil
	}
	stays, err := os.UserCacheDir() // empty if it fails
	dir := cmp.Or(preferred, stays, os.Getenv("XDG_RUNTIME_DIR"))
	if dir == "" {
		return "", fmt.Errorf("no directory of the user's own: set HOME, or XDG_RUNTIME_DIR: %w", err)
	}
	dir = filepath.Join(dir, "carillon")
	return dir, os.MkdirAll(dir, 0o700)
}
