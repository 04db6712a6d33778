// Package maintenance backs up, restores, verifies and scavenges an event store node by its directory, running or not.
//
// A process that runs a node serves these tasks on a unix socket in the node's directory, which only the same user can
// reach: HTTP, with an answer of one JSON object per line, the last of which is the result. Open finds the socket, or
// takes the directory itself if no process answers.
package maintenance

import (
	"context"
	"errors"

	"carillon/eventstore/node"
)

// Node is an event store node that can be maintained: a *node.Node, a remote one, or an unused directory.
type Node interface {
	// Backup writes a consistent copy to a directory that must not exist; the path is absolute.
	Backup(ctx context.Context, dir string) error
	// Verify reads everything and compares it; the error only says why it could not finish.
	Verify(ctx context.Context, progress node.Progress) (node.Report, error)
	// Scavenge removes deleted and truncated events permanently.
	Scavenge(ctx context.Context, progress node.Progress) (node.Scavenged, error)
}

var (
	// ErrBusy: another task is in progress on the node.
	ErrBusy = errors.New("another maintenance task is in progress")
	// ErrNoStore: the directory holds no event store.
	ErrNoStore = errors.New("no event store there")
)

// Tasks, as in the socket's paths.
const (
	taskBackup   = "backup"
	taskVerify   = "verify"
	taskScavenge = "scavenge"
)

// line is one line of an answer.
type line struct {
	Done      uint64          `json:"done,omitempty"`
	Total     uint64          `json:"total,omitempty"`
	Error     string          `json:"error,omitempty"`
	Finished  bool            `json:"finished,omitempty"`
	Report    *node.Report    `json:"report,omitempty"`
	Scavenged *node.Scavenged `json:"scavenged,omitempty"`
}

// about is a node's description of itself.
type about struct {
	Socket string `json:"socket,omitempty"` // speaks the EventStoreDB protocol without credentials; "" for none
}
