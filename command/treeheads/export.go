package treeheads

import (
	"bytes"
	"cmp"
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

// Wanted names what an export contains.
type Wanted struct {
	Streams []string
	// Organization is the reader's. Events of others are withheld; uuid.Nil means that none is.
	Organization uuid.UUID
	Since        uint64 // Optional. Size of an earlier head to be continued.
}

// exported is an event to be exported, and its place in the order of all.
type exported struct {
	event eventstore.Recorded
	index uint64
	found bool
}

// Export writes the wanted events, each with the proof that it is in the tree of the newest head, and the proof that
// the tree of size Since is the beginning. begin is called before anything is written. Optional.
func (s *Sealer) Export(ctx context.Context, to io.Writer, wanted Wanted, begin func()) error {
	since := wanted.Since
	head, heads, err := s.Last(ctx)
	switch {
	case err != nil:
		return err
	case head == nil:
		return ErrUnsealed
	case since > head.Size:
		return ErrSince
	}
	first := &seal.ExportHead{Head: *head, Since: since, Withheld: map[string][]eventstore.Revision{}}
	events, err := s.collect(ctx, wanted, heads, first.Withheld)
	if err != nil {
		return err
	}
	prover, err := s.prover(ctx, head, heads, events, since)
	if err != nil {
		return err
	}
	if since > 0 {
		if first.Consistency, err = prover.Consistency(since); err != nil {
			return err
		}
	}
	for _, e := range events {
		if !e.found {
			first.Unsealed++
		}
	}
	if first.Unsealed == len(events) {
		return ErrNothing
	}
	if begin != nil {
		begin()
	}
	return s.write(to, first, events, prover)
}

// reads reports whether the reader may see an event of an organization; uuid.Nil means that it belongs to none.
func (w Wanted) reads(of uuid.UUID) bool { return w.Organization == uuid.Nil || w.Organization == of }

func (s *Sealer) write(to io.Writer, first *seal.ExportHead, events []exported, prover *seal.Prover) error {
	w, err := seal.NewExportWriter(to, first)
	if err != nil {
		return err
	}
	for _, e := range events {
		if !e.found {
			continue
		}
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

// collect reads the wanted events, finds their places, and adds the others' revisions to withheld.
func (s *Sealer) collect(
	ctx context.Context, wanted Wanted, heads uint64, withheld map[string][]eventstore.Revision,
) (events []exported, err error) {
	places := map[place]int{}
	for _, stream := range wanted.Streams {
		known := len(events)
		var owner uuid.UUID
		for e, err := range s.Store.Read(ctx, stream, 0) {
			if err != nil {
				return nil, err
			}
			meta, err := eventstore.ParseMetadata(e.Metadata)
			if err != nil {
				return nil, err
			}
			if e.Revision == 0 {
				owner = meta.Organization
			}
			if !wanted.reads(cmp.Or(meta.Organization, owner)) {
				withheld[stream] = append(withheld[stream], e.Revision)
				continue
			}
			places[place{seal.TagOf(e.Stream), e.Revision}] = len(events)
			events = append(events, exported{event: e})
		}
		if known == len(events) {
			delete(withheld, stream) // the stream does not exist for the reader
		}
	}
	return events, s.leaves(ctx, heads, func(index uint64, leaf seal.Leaf) {
		if i, wanted := places[placeOf(leaf)]; wanted {
			events[i].index, events[i].found = index, true
		}
	})
}

// prover proves the events that were found in the tree of a head.
func (s *Sealer) prover(
	ctx context.Context, head *seal.Head, heads uint64, events []exported, since uint64,
) (*seal.Prover, error) {
	var wanted, earlier []uint64
	for _, e := range events {
		if e.found {
			wanted = append(wanted, e.index)
		}
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
