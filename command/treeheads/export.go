package treeheads

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// ErrUnsealed means that the log has no tree head yet.
var ErrUnsealed = errors.New("the log has no tree head yet")

// ErrNothing means that no event of the streams is sealed.
var ErrNothing = errors.New("no event of it is sealed")

// ErrSince means that a head to be continued is larger than the newest one.
var ErrSince = errors.New("a head to be continued must not cover more events than the newest one, and at least 1")

// GoneError means that sealed events of a stream are not in the store any more: it was retired, or another client of
// the store has deleted or cut it.
type GoneError struct {
	Stream string
	Events int
}

// Error names the stream.
func (e *GoneError) Error() string {
	return fmt.Sprintf("%d sealed events of %s are gone: it was retired, or another client of the event store cut it; "+
		"\"carillon audit verify\" shows which", e.Events, e.Stream)
}

// Wanted names what an export contains: the streams of an id.
type Wanted struct {
	ID         uuid.UUID
	Categories []string
	Linked     []string // Optional. Streams of other ids, whose first events name this one.
	// Organization is the reader's. Events of others are withheld; uuid.Nil means that none is.
	Organization uuid.UUID
	Since        uint64 // Optional. Size of an earlier head to be continued.
}

// exported is an event to be exported, and its place in the order of all.
type exported struct {
	event eventstore.Recorded
	index uint64
}

// Export writes the wanted events, each with the proof that it is in the tree of the newest head, and the proof that
// the tree of size Since is the beginning. It fails with ErrUnsealed, ErrSince, ErrNothing or a *GoneError. begin is
// called before anything is written. Optional.
func (s *Sealer) Export(ctx context.Context, to io.Writer, wanted Wanted, begin func()) error {
	head, heads, err := s.Last(ctx)
	switch {
	case err != nil:
		return err
	case head == nil:
		return ErrUnsealed
	case wanted.Since > head.Size:
		return ErrSince
	}
	first := &seal.ExportHead{Asked: wanted.ID, Head: *head, Since: wanted.Since}
	events, err := s.collect(ctx, wanted, heads, first)
	if err != nil {
		return err
	}
	prover, err := s.prover(ctx, head, heads, events, wanted.Since)
	if err == nil && wanted.Since > 0 {
		first.Consistency, err = prover.Consistency(wanted.Since)
	}
	if err != nil {
		return err
	}
	if begin != nil {
		begin()
	}
	return s.write(to, first, events, prover)
}

func (s *Sealer) write(to io.Writer, first *seal.ExportHead, events []exported, prover *seal.Prover) error {
	w, err := seal.NewExportWriter(to, first)
	if err != nil {
		return err
	}
	for _, e := range events {
		proof, err := prover.Inclusion(e.index)
		if err != nil {
			return err
		}
		if err := w.Event(&e.event, e.index, proof); err != nil {
			return err
		}
	}
	return w.End(s.Key)
}

// collect reads the wanted events that are sealed, and adds their streams to the first line.
func (s *Sealer) collect(
	ctx context.Context, wanted Wanted, heads uint64, first *seal.ExportHead,
) (events []exported, err error) {
	streams, byTag := make([]*stored, 0, len(wanted.Categories)+len(wanted.Linked)), map[seal.Tag]*stored{}
	for _, category := range wanted.Categories {
		streams = append(streams, newStored(eventstore.StreamName(category, wanted.ID)))
	}
	for _, name := range wanted.Linked {
		streams = append(streams, newStored(name))
	}
	for _, one := range streams {
		byTag[seal.TagOf(one.name)] = one
		if err := one.read(ctx, s.Store); err != nil {
			return nil, err
		}
	}
	err = s.leaves(ctx, heads, func(index uint64, leaf seal.Leaf) {
		if one := byTag[leaf.Tag]; one != nil {
			one.sealed = append(one.sealed, sealedPlace{leaf.Revision, index})
		}
	})
	if err != nil {
		return nil, err
	}
	for _, one := range streams {
		if err := one.uncover(ctx, s.Store); err != nil {
			return nil, err
		}
		of, err := one.part(wanted.Organization)
		if err != nil {
			return nil, err
		}
		first.Unsealed += of.unsealed
		if len(of.events) > 0 {
			events = append(events, of.events...)
			of.Linked = one.id() != wanted.ID
			first.Streams = append(first.Streams, of.ExportStream)
		}
	}
	if len(events) == 0 {
		return nil, ErrNothing
	}
	return events, nil
}

// prover proves the events that were found in the tree of a head.
func (s *Sealer) prover(
	ctx context.Context, head *seal.Head, heads uint64, events []exported, since uint64,
) (*seal.Prover, error) {
	wanted, earlier := make([]uint64, len(events)), []uint64(nil)
	for i, e := range events {
		wanted[i] = e.index
	}
	if since > 0 {
		earlier = append(earlier, since)
	}
	prover, err := seal.NewProver(head.Size, wanted, earlier)
	if err != nil {
		return nil, err
	}
	if err := s.leaves(ctx, heads, func(_ uint64, leaf seal.Leaf) { prover.Append(leaf.Hash) }); err != nil {
		return nil, err
	}
	if root := prover.Root(); !bytes.Equal(root[:], head.Root) {
		return nil, fmt.Errorf("the tree heads in the log were changed: run \"carillon audit verify\"")
	}
	return prover, nil
}

// leaves calls visit for all leaves that the first heads keep.
func (s *Sealer) leaves(ctx context.Context, heads uint64, visit func(index uint64, leaf seal.Leaf)) error {
	index := uint64(0)
	for number := range heads {
		e, found, err := read(ctx, s.Store, number)
		if err == nil && !found {
			err = fmt.Errorf("tree head %d is missing: run \"carillon audit verify\"", number)
		}
		if err != nil {
			return err
		}
		leaves, err := seal.ReadLeaves(e.Leaves)
		if err != nil {
			return fmt.Errorf("tree head %d: %w", number, err)
		}
		for _, leaf := range leaves {
			visit(index, leaf)
			index++
		}
	}
	return nil
}
