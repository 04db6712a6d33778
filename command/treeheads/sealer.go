package treeheads

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"carillon/aggregates/treehead"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// maxLeaves is how many events one head adds at most: an append holds 1 MiB.
const maxLeaves = 8192

// Sealer signs tree heads.
type Sealer struct {
	Store eventstore.Store
	Key   ed25519.PrivateKey
	Now   func() time.Time

	newest atomic.Pointer[newest]
	mu     sync.Mutex
	number uint64              // of the next head
	last   *seal.Head          // nil means none
	tree   *seal.Tree          // nil means unknown: it is resumed from the log
	after  eventstore.Position // of the last event in the tree
}

// newest is the newest head that is known, and how many there are.
type newest struct {
	head  *seal.Head
	heads uint64
}

// Last returns the newest head in the log and how many there are; nil if there is none. While a head is being signed,
// it returns the one before without waiting.
func (s *Sealer) Last(ctx context.Context) (head *seal.Head, heads uint64, err error) {
	if s.mu.TryLock() {
		err = s.find(ctx)
		s.mu.Unlock()
	}
	if known := s.newest.Load(); known != nil {
		return known.head, known.heads, err
	}
	return nil, 0, err
}

// find finds the newest head. The mutex is held.
func (s *Sealer) find(ctx context.Context) error {
	count, err := Count(ctx, s.Store, s.number)
	if err != nil || count == s.number {
		return err
	}
	e, found, err := read(ctx, s.Store, count-1)
	if err != nil || !found {
		return err
	}
	head := headOf(&e)
	s.number, s.last, s.tree = count, &head, nil
	s.newest.Store(&newest{head: s.last, heads: s.number})
	return nil
}

// Seal signs a head of all events that are in the log now, or several if they are many. It returns the new ones: none
// if nothing happened since the last one. Processes may do so at the same time: one of them records a number.
func (s *Sealer) Seal(ctx context.Context, by eventstore.Metadata) (heads []seal.Head, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for range 2 { // again if another process was faster
		more, err := s.seal(ctx, by)
		heads = append(heads, more...)
		if err != nil {
			s.tree = nil
		}
		if !errors.Is(err, treehead.ErrTaken) {
			return heads, err
		}
	}
	return heads, nil
}

func (s *Sealer) seal(ctx context.Context, by eventstore.Metadata) (heads []seal.Head, err error) {
	if err := s.resume(ctx); err != nil {
		return nil, err
	}
	end, err := s.Store.Head(ctx)
	if err != nil {
		return nil, err
	}
	b := batch{news: s.last == nil}
	for e, err := range eventstore.Between(ctx, s.Store, s.after, end, eventstore.Filter{}) {
		switch {
		case err != nil:
			return heads, err
		case !seal.Covers(e):
			continue
		}
		if b.add(e); b.count < maxLeaves {
			continue
		}
		head, err := s.sign(ctx, &b, by)
		if err != nil {
			return heads, err
		}
		heads = append(heads, head)
		b = batch{hashes: b.hashes[:0], leaves: b.leaves[:0]}
	}
	if b.count == 0 || !b.news && len(heads) == 0 {
		return heads, nil
	}
	head, err := s.sign(ctx, &b, by)
	if err == nil {
		heads = append(heads, head)
	}
	return heads, err
}

// batch is the events that a head adds.
type batch struct {
	hashes []seal.Hash
	leaves []byte
	count  int
	last   eventstore.Recorded
	news   bool // it has events besides heads
}

func (b *batch) add(e *eventstore.Recorded) {
	leaf := seal.LeafOf(e)
	b.hashes, b.leaves = append(b.hashes, leaf.Hash), seal.AppendLeaf(b.leaves, leaf)
	b.count++
	b.last = eventstore.Recorded{Stream: e.Stream, Revision: e.Revision, Position: e.Position}
	b.news = b.news || e.Category() != treehead.Aggregate.Category
}

// sign records the next head, with the events of a batch.
func (s *Sealer) sign(ctx context.Context, b *batch, by eventstore.Metadata) (head seal.Head, err error) {
	for _, hash := range b.hashes {
		s.tree.Append(hash)
	}
	head = seal.Sign(s.tree, b.leaves, s.Now(), s.Key)
	_, err = treehead.Aggregate.Execute(ctx, s.Store, treehead.StreamID(s.number), treehead.Sign{
		Number:    s.number,
		Size:      head.Size,
		Root:      head.Root,
		At:        head.At,
		Key:       head.Key,
		Signature: head.Signature,
		Leaves:    b.leaves,
		Nodes:     s.tree.Nodes(),
		Stream:    b.last.Stream,
		Revision:  b.last.Revision,
	}, treehead.Options{
		Metadata: by,
		Known:    &eventstore.Loaded[treehead.State]{Revision: eventstore.NoStream},
	})
	if err != nil {
		return head, err
	}
	s.number, s.last, s.after = s.number+1, &head, b.last.Position
	s.newest.Store(&newest{head: s.last, heads: s.number})
	return head, nil
}

// resume makes the tree of the newest head, and finds the position up to which it goes.
func (s *Sealer) resume(ctx context.Context) error {
	if err := s.find(ctx); err != nil {
		return err
	}
	switch {
	case s.tree != nil:
		return nil
	case s.number == 0:
		s.tree, s.after = seal.NewTree(), eventstore.Start
		return nil
	}
	e, found, err := read(ctx, s.Store, s.number-1)
	if err == nil && !found {
		err = fmt.Errorf("tree head %d was in the log and is gone", s.number-1)
	}
	if err != nil {
		return err
	}
	tree, err := seal.ResumeTree(e.Size, e.Nodes)
	if err != nil {
		return fmt.Errorf("tree head %d: %w", s.number-1, err)
	}
	head := headOf(&e)
	if root := tree.Root(); !bytes.Equal(root[:], e.Root) || head.Check(nil) != nil {
		return fmt.Errorf("tree head %d was changed in the log: run \"carillon audit verify\"", s.number-1)
	}
	if s.after, err = s.locate(ctx, &e); err != nil {
		return err
	}
	s.tree = tree
	return nil
}

// locate finds the position of the last event that a head covers.
func (s *Sealer) locate(ctx context.Context, e *treehead.Signed) (eventstore.Position, error) {
	for recorded, err := range s.Store.Read(ctx, e.Stream, e.Revision) {
		switch {
		case errors.Is(err, eventstore.ErrStreamDeleted):
		case err != nil:
			return eventstore.Start, err
		case recorded.Revision == e.Revision:
			return recorded.Position, nil
		}
		break
	}
	// The event was removed. So the last one that is left of those which the head covers is looked for.
	leaves, err := seal.ReadLeaves(e.Leaves)
	if err != nil {
		return eventstore.Start, err
	}
	covered := make(map[place]bool, len(leaves))
	for _, leaf := range leaves {
		covered[placeOf(leaf)] = true
	}
	end, err := s.Store.Head(ctx)
	if err != nil {
		return eventstore.Start, err
	}
	found, counted := eventstore.Start, uint64(0)
	for recorded, err := range eventstore.Between(ctx, s.Store, eventstore.Start, end, eventstore.Filter{}) {
		switch {
		case err != nil:
			return found, err
		case !seal.Covers(recorded):
			continue
		}
		if counted++; covered[place{seal.TagOf(recorded.Stream), recorded.Revision}] {
			found = recorded.Position
		}
	}
	if found == eventstore.Start && counted > 0 {
		return found, fmt.Errorf("none of the events of tree head %d is left: the log can't be sealed further", e.Number)
	}
	return found, nil
}

// covers reports whether a head that this process knows covers the event at a position.
func (s *Sealer) covers(at eventstore.Position) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tree != nil && !s.after.Before(at)
}

// place is a place in a stream.
type place struct {
	tag      seal.Tag
	revision eventstore.Revision
}

func placeOf(l seal.Leaf) place { return place{l.Tag, l.Revision} }

// Public returns the key that heads are verified by.
func (s *Sealer) Public() ed25519.PublicKey {
	public, _ := s.Key.Public().(ed25519.PublicKey) // it is one
	return public
}
