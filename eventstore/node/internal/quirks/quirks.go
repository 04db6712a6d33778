// Package quirks lets a node behave as other servers do. Package stricttest implements it for tests.
package quirks

import (
	"context"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"

	"carillon/eventstore/node/internal/store"
)

// Quirks are asked at the places where other servers differ.
type Quirks interface {
	// Any reports whether there are any.
	Any() bool
	// Batches reports whether BatchAppend works, and whether it is announced to clients.
	Batches() (work, offered bool)
	// Led returns the refusal of a call that wants the leader; nil if the node leads.
	Led(ctx context.Context) error
	// Members returns what gossip shows of the cluster.
	Members(own *gossip.MemberInfo) []*gossip.MemberInfo
	// Size is the part of an append's size that an event counts for.
	Size(event *store.EventContent) int
	// Hold returns a channel that is closed when an append is replicated, or nil if it need not wait. It reports again
	// for a waiting append, which is never answered.
	Hold(stream string, first store.EventID) (resumed <-chan struct{}, again bool)
	// Spend takes the processor time of an append, before it is recorded.
	Spend()
	// Recorded is called after each append, and may lose its answer.
	Recorded(s *store.Store) error
	// Readable refuses positions that can't be read from.
	Readable(s *store.Store, commit, prepare uint64, subscribing bool) error
	// Subscription returns the quirks of a subscription to $all.
	Subscription() Subscription
}

// Subscription are the quirks of a subscription to $all.
type Subscription struct {
	ConfirmsFirst bool // before it refuses its position
	AwaitsBeyond  bool // sends nothing until the log has grown past its position
	// Overrun and Behind are how many events at once drop a live subscription, or let it fall behind. 0 means any number.
	Overrun, Behind int
	// Drop is called for a dropped subscription. Optional.
	Drop func() error
	// Page returns the checkpoints of a page on the way to the head, from began to last. Optional.
	Page func(began, last uint64, end bool) []*streams.ReadResp
}

// Checkpoint returns the message which says how far a filtered subscription has come.
func Checkpoint(commit, prepare uint64) *streams.ReadResp {
	return &streams.ReadResp{Content: &streams.ReadResp_Checkpoint_{
		Checkpoint: &streams.ReadResp_Checkpoint{CommitPosition: commit, PreparePosition: prepare},
	}}
}

// Refusal is an error as clients see it.
type Refusal struct {
	Code     codes.Code
	Message  string
	Trailers []string // keys and values
}

func (r *Refusal) Error() string { return r.Message }

// None is a node without quirks.
type None struct{}

// Any implements Quirks.
func (None) Any() bool { return false }

// Batches implements Quirks.
func (None) Batches() (work, offered bool) { return true, true }

// Led implements Quirks.
func (None) Led(context.Context) error { return nil }

// Members implements Quirks.
func (None) Members(own *gossip.MemberInfo) []*gossip.MemberInfo { return []*gossip.MemberInfo{own} }

// Size implements Quirks.
func (None) Size(event *store.EventContent) int { return len(event.Data) }

// Hold implements Quirks.
func (None) Hold(string, store.EventID) (resumed <-chan struct{}, again bool) { return nil, false }

// Spend implements Quirks.
func (None) Spend() {}

// Recorded implements Quirks.
func (None) Recorded(*store.Store) error { return nil }

// Readable implements Quirks.
func (None) Readable(*store.Store, uint64, uint64, bool) error { return nil }

// Subscription implements Quirks.
func (None) Subscription() Subscription { return Subscription{AwaitsBeyond: true} }
