package node

import (
	"context"
	"errors"
	"fmt"

	"carillon/eventstore/node/internal/store"
)

// Progress is called now and then with how much of a long task is done, from one goroutine. nil is allowed.
type Progress = func(done, total uint64)

type (
	// Report is the result of Verify.
	Report = store.Report
	// Scavenged is the amount that a scavenge removed.
	Scavenged = store.Scavenged
	// Lost is a range of a stream's revisions that were acknowledged and can't be read any more.
	Lost = store.Lost
)

// Backup writes a consistent copy of the node's data to a directory that must not exist, while the node works. The
// copy is itself the data directory of a node.
func (n *Node) Backup(ctx context.Context, dir string) error { return n.store.Backup(ctx, dir) }

// Verify reads all data, checks every checksum, and compares log, stream indexes and heads with each other. It works
// on the state at its beginning while the node goes on. The error only says why it could not finish.
func (n *Node) Verify(ctx context.Context, progress Progress) (Report, error) {
	return n.store.Verify(ctx, progress)
}

// Scavenge removes permanently the events that deletion, $maxCount, $maxAge and $tb have hidden, and returns their
// space back, while the node works. Its progress counts streams.
func (n *Node) Scavenge(ctx context.Context, progress Progress) (Scavenged, error) {
	return n.store.Scavenge(ctx, progress)
}

// Verify verifies the data in a directory that no node is using, and changes nothing there; see Node.Verify.
func Verify(ctx context.Context, config Config, progress Progress) (report Report, err error) {
	options := config.storeOptions()
	options.MustExist, options.ReadOnly = true, true
	opened, err := store.Open(options)
	if err != nil {
		return Report{}, fmt.Errorf("verify: %w", err)
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	return opened.Verify(ctx, progress)
}

// Repaired is the result of Repair.
type Repaired struct {
	// Damage describes the damage; empty if there is none.
	Damage string
	// Last is the position of the last event that can be read, Acknowledged that up to which events were acknowledged; 0
	// if that isn't known.
	Last, Acknowledged uint64
	Lost               []Lost
	// Unnamed means that even the stream of some lost events is unknown.
	Unnamed bool
	// Kept is the directory of the damaged logs; empty if none was changed.
	Kept string
}

// Repair lists the events that a directory has lost at the end of its log, and with acceptLoss makes it open again
// without them. The directory must not be in use.
func Repair(config Config, acceptLoss bool) (Repaired, error) {
	found, err := store.Repair(config.storeOptions(), acceptLoss)
	repaired := Repaired{Kept: found.Kept}
	if found.Damage != nil {
		repaired.Damage = found.Damage.Summary()
		repaired.Last, repaired.Acknowledged = found.Damage.Last, found.Damage.Acknowledged
		repaired.Lost, repaired.Unnamed = found.Damage.Lost, found.Damage.Unnamed
	}
	if err != nil {
		return repaired, fmt.Errorf("repair: %w", err)
	}
	return repaired, nil
}
