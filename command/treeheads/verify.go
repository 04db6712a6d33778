package treeheads

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"iter"

	"carillon/aggregates/retirement"
	"carillon/aggregates/treehead"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// Verification compares a log with its heads, and with heads that were kept elsewhere.
type Verification struct {
	Store eventstore.Store
	// All yields the whole log, the store's own events included.
	All func(ctx context.Context) iter.Seq2[eventstore.Recorded, error]
	// Trusted are the keys that may have signed heads; none means any.
	Trusted   []ed25519.PublicKey
	Elsewhere []seal.Head
	// Progress hears of each event. Optional.
	Progress func(at eventstore.Position)
}

const (
	// maxAhead is how far an event is looked for among the leaves that follow.
	maxAhead = 1 << 20
	// maxSuspects is how many events are remembered that may turn out to be added.
	maxSuspects = 1000
)

// Run verifies. A difference is no error, but part of the report.
func (v *Verification) Run(ctx context.Context) (*Report, error) {
	count, err := Count(ctx, v.Store, 0)
	if err != nil {
		return nil, err
	}
	report, beyond, err := v.run(ctx, count)
	if err == nil && beyond > count { // counted up to one that is missing
		report, _, err = v.run(ctx, beyond)
	}
	return report, err
}

// run verifies by a number of heads. It also returns how many there are if one that was counted as the last is missing.
func (v *Verification) run(ctx context.Context, count uint64) (report *Report, beyond uint64, err error) {
	report = &Report{}
	var elsewhere []seal.Head // without forged ones, which say nothing about the log
	for _, head := range v.Elsewhere {
		if err := head.Check(v.Trusted); err != nil {
			report.fault(Fault{Kind: HeadFault, Text: fmt.Sprintf("head that was kept elsewhere, of %d events: %v", head.Size,
				err)})
			continue
		}
		elsewhere = append(elsewhere, head)
	}
	w := &walk{
		kept:    newKept(v.Store, count, elsewhere, report),
		report:  report,
		gone:    map[place]uint64{},
		cuts:    map[seal.Tag]*settings{},
		retired: map[seal.Tag]bool{},
	}
	w.kept.trusted = v.Trusted
	for e, err := range v.All(ctx) {
		if err == nil {
			err = w.take(ctx, &e)
		}
		if err != nil {
			return nil, 0, err
		}
		if v.Progress != nil {
			v.Progress(e.Position)
		}
	}
	if err := w.finish(ctx); err != nil {
		return nil, 0, err
	}
	if w.beyond > count {
		there, err := exists(ctx, v.Store, count) // then they were added meanwhile
		if err != nil || !there {
			return report, w.beyond, err
		}
	}
	return report, 0, w.name(ctx, v.All)
}

// walk goes through the log beside the leaves that are kept of it.
type walk struct {
	kept     *kept
	report   *Report
	gone     map[place]uint64 // leaves that were passed over, with their index
	suspects []eventstore.Recorded
	unplaced uint64                 // events since the last one with a leaf, suspects among them
	cuts     map[seal.Tag]*settings // of streams that no retirement has named before
	retired  map[seal.Tag]bool      // streams that sealed retirements name, and whether they have ended
	beyond   uint64                 // number after the highest one of a head in the log
}

// take takes in the next event of the log.
func (w *walk) take(ctx context.Context, e *eventstore.Recorded) error {
	if !seal.Covers(e) {
		w.describe(e)
		return nil
	}
	w.note(e)
	leaf := seal.LeafOf(e)
	if index, passed := w.gone[placeOf(leaf)]; passed {
		delete(w.gone, placeOf(leaf))
		w.report.ofEvent(Moved, index, e, fmt.Sprintf("it was event %d, and stands before event %d now", index,
			w.kept.index))
		return nil
	}
	for n := range maxAhead {
		next, ok, err := w.kept.peek(ctx, n)
		switch {
		case err != nil:
			return err
		case !ok && n == 0:
			w.report.Unsealed++
			return nil
		case !ok:
			return w.unplace(ctx, e)
		case next.Is(leaf) && !next.unknown:
			return w.found(ctx, e, n, next.Hash == leaf.Hash)
		}
	}
	return w.unplace(ctx, e)
}

// unplace takes in an event without a leaf. If the next leaf is unknown, it is that.
func (w *walk) unplace(ctx context.Context, e *eventstore.Recorded) error {
	if next, ok, err := w.kept.peek(ctx, 0); err != nil || ok && next.unknown {
		w.kept.pass(1)
		return err
	}
	if w.unplaced++; len(w.suspects) < maxSuspects {
		w.suspects = append(w.suspects, *e)
	}
	return nil
}

// found takes in that an event has a leaf, which comes after n others.
func (w *walk) found(ctx context.Context, e *eventstore.Recorded, n int, equal bool) error {
	for _, suspect := range w.suspects {
		w.report.ofEvent(Added, w.kept.index, &suspect, fmt.Sprintf("it stands before event %d, and was not there when that "+
			"was sealed", w.kept.index))
	}
	w.report.Count += w.unplaced - uint64(len(w.suspects))
	w.suspects, w.unplaced = nil, 0
	for i := range n {
		leaf, _, err := w.kept.peek(ctx, i)
		if err != nil {
			return err
		}
		w.miss(leaf, w.kept.index+uint64(i)) //nolint:gosec // not negative
	}
	w.kept.pass(n)
	if equal {
		w.report.Events++
		w.retire(e)
	} else {
		w.report.ofEvent(Changed, w.kept.index, e, "it differs from what was sealed")
	}
	w.kept.pass(1)
	return nil
}

// retire takes in the streams that a sealed retirement names.
func (w *walk) retire(e *eventstore.Recorded) {
	if e.Category() != retirement.Aggregate.Category {
		return
	}
	event, err := retirement.Events.Decode(e)
	if err != nil {
		return // then it names none
	}
	for _, streams := range retire.Streams(event) {
		for _, stream := range streams {
			tag := seal.TagOf(stream)
			if _, named := w.retired[tag]; !named { // one that is may have ended already
				w.retired[tag] = false
			}
		}
	}
}

// note counts the heads that the log has, also beyond one that is missing.
func (w *walk) note(e *eventstore.Recorded) {
	if e.Category() != treehead.Aggregate.Category {
		return
	}
	event, err := treehead.Events.Decode(e)
	if err != nil {
		return // its leaf shows it
	}
	switch event := event.(type) {
	case treehead.Signed:
		w.beyond = max(w.beyond, event.Number+1)
	}
}

// finish judges what is left when the log is at its end.
func (w *walk) finish(ctx context.Context) error {
	w.report.Unsealed += w.unplaced
	for {
		leaf, ok, err := w.kept.peek(ctx, 0)
		if err != nil {
			return err
		}
		if !ok {
			break
		}
		w.miss(leaf, w.kept.index)
		w.kept.pass(1)
	}
	w.kept.finish()
	w.classify()
	return nil
}

// miss takes in that the log has no event of a leaf, so far.
func (w *walk) miss(leaf slot, index uint64) {
	if !leaf.unknown {
		w.gone[placeOf(leaf.Leaf)] = index
		return
	}
	w.report.fault(Fault{Kind: Missing, Index: index, Text: "it is gone, and so is the head that kept its leaf"})
}
