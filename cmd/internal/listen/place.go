package listen

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"os/user"
	"path/filepath"
	"regexp"
	"syscall"
)

// maxPlaces is the number of listeners of one user on one machine at a time.
const maxPlaces = 4

// place is the right to one externalId. The kernel takes the lock back from a process that was killed, so that the next
// one removes what it left.
type place struct {
	externalID string
	lock       *os.File
}

func (p *place) release() {
	if p != nil {
		_ = p.lock.Close()
	}
}

var notInExternalID = regexp.MustCompile(`[^A-Za-z0-9._:-]+`)

// takePlace locks the first free place, and removes the destinations of all places that no process has.
func (l *listener) takePlace(ctx context.Context) (taken *place, err error) {
	for i := range maxPlaces {
		p, err := l.lockPlace(i)
		switch {
		case err != nil:
		case p == nil:
			continue
		default:
			err = l.remove(ctx, p.externalID)
		}
		if err != nil {
			p.release()
			taken.release()
			return nil, err
		}
		if taken == nil {
			taken = p
		} else {
			p.release()
		}
	}
	if taken == nil {
		return nil, fmt.Errorf("%d listeners of this user are running: stop one", maxPlaces)
	}
	return taken, nil
}

// lockPlace returns nil if another process has the place.
func (l *listener) lockPlace(i int) (*place, error) {
	name, host := "user", "host"
	if current, err := user.Current(); err == nil {
		name = current.Username
	}
	if known, err := os.Hostname(); err == nil {
		host = known
	}
	externalID := notInExternalID.ReplaceAllString(fmt.Sprintf("listen.%s.%s.%d", name, host, i+1), "-")
	of := sha256.Sum256([]byte(l.API.Base() + "\n" + externalID))
	file := filepath.Join(os.TempDir(), fmt.Sprintf("carillon-listen-%x", of[:8]))
	lock, err := os.OpenFile(file, os.O_RDWR|os.O_CREATE, 0o600) //nolint:gosec // named by a hash
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil { //nolint:gosec // it fits
		_ = lock.Close()
		return nil, nil //nolint:nilerr,nilnil // another process has it
	}
	return &place{externalID: externalID, lock: lock}, nil
}
