package treeheads

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"slices"

	"carillon/aggregates/treehead"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// kept reads the leaves that the heads of a log keep, and checks each head on its way.
type kept struct {
	store     eventstore.Store
	trusted   []ed25519.PublicKey
	elsewhere []seal.Head // by size
	count     uint64      // heads in the log
	report    *Report

	number uint64 // of the next head
	tree   *seal.Tree
	fits   uint64 // size of the last head kept elsewhere that fits
	window []slot // leaves that were read and not passed
	index  uint64 // of the first in the window
}

// slot is a place in the order of all events.
type slot struct {
	seal.Leaf

	unknown bool // the head that kept the leaf is missing
}

func newKept(store eventstore.Store, count uint64, elsewhere []seal.Head, report *Report) *kept {
	sorted := slices.SortedStableFunc(slices.Values(elsewhere),
		func(a, b seal.Head) int { return cmp.Compare(a.Size, b.Size) })
	return &kept{
		store:     store,
		elsewhere: sorted,
		count:     count,
		report:    report,
		tree:      seal.NewTree(),
	}
}

// peek returns the leaf that comes after n others; ok is false if there is none.
func (k *kept) peek(ctx context.Context, n int) (leaf slot, ok bool, err error) {
	for n >= len(k.window) && k.number < k.count {
		if err := k.load(ctx); err != nil {
			return leaf, false, err
		}
	}
	if n >= len(k.window) {
		return leaf, false, nil
	}
	return k.window[n], true, nil
}

// pass passes over the first n leaves.
func (k *kept) pass(n int) {
	k.window, k.index = k.window[n:], k.index+uint64(n) //nolint:gosec // not negative
}

// load takes in the leaves of the next head.
func (k *kept) load(ctx context.Context) error {
	number := k.number
	k.number++
	e, found, err := read(ctx, k.store, number)
	switch {
	case errors.Is(err, eventstore.ErrUndecodable):
		k.report.ofHead(number, "it can't be read: %v", err)
		return nil
	case err != nil:
		return err
	case !found:
		k.report.ofHead(number, "it is missing")
		return nil
	}
	leaves, err := seal.ReadLeaves(e.Leaves)
	if err != nil {
		k.report.ofHead(number, "%v", err)
	}
	k.bridge(&e, uint64(len(leaves)))
	for _, leaf := range leaves {
		k.tree.Append(leaf.Hash)
		k.window = append(k.window, slot{Leaf: leaf})
	}
	k.check(number, &e)
	return nil
}

// bridge makes room for the leaves that a missing head has kept, before those of the next one.
func (k *kept) bridge(next *treehead.Signed, count uint64) {
	before := k.index + uint64(len(k.window))
	gap := next.Size - count - before
	if next.Size < count+before || gap == 0 || gap > maxAhead {
		return
	}
	k.window = append(k.window, slices.Repeat([]slot{{unknown: true}}, int(gap))...) //nolint:gosec // limited above
}

// compare compares a head of the log with those that were kept elsewhere and cover as many events, or fewer.
func (k *kept) compare(head *seal.Head) {
	for len(k.elsewhere) > 0 && k.elsewhere[0].Size <= head.Size {
		if k.elsewhere[0].Same(head) {
			k.fits = head.Size
			k.report.Elsewhere++
		} else {
			k.rewritten(&k.elsewhere[0], k.fits, fmt.Sprintf("the log has no such head: the first difference is after event %d",
				k.fits))
		}
		k.elsewhere = k.elsewhere[1:]
	}
}

func (k *kept) rewritten(elsewhere *seal.Head, index uint64, text string) {
	k.report.fault(Fault{
		Kind:  Rewritten,
		Index: index,
		Text: fmt.Sprintf("the head of %s that was kept elsewhere covers %d events, and %s",
			elsewhere.At.UTC().Format(timeForm), elsewhere.Size, text),
	})
}

const timeForm = "2006-01-02T15:04:05Z"

// check verifies a head, whose leaves are in the tree.
func (k *kept) check(number uint64, e *treehead.Signed) {
	head := headOf(e)
	k.report.Heads, k.report.Last = k.report.Heads+1, &head
	k.compare(&head)
	root := k.tree.Root()
	switch err := head.Check(k.trusted); {
	case err != nil:
		k.report.ofHead(number, "%v", err)
	case e.Number != number:
		k.report.ofHead(number, "it stands in the place of head %d", e.Number)
	case head.Size != k.tree.Size() || !bytes.Equal(root[:], head.Root):
		k.report.ofHead(number, "its root is not that of the %d leaves that were kept up to it", k.tree.Size())
	default:
		return
	}
	if tree, err := seal.ResumeTree(e.Size, e.Nodes); err == nil { // so that later heads are not faulted for it
		if root := tree.Root(); bytes.Equal(root[:], e.Root) {
			k.tree = tree
		}
	}
}

// finish compares heads that were kept elsewhere and cover more events than the last one of the log.
func (k *kept) finish() {
	events := k.tree.Size() + k.report.Unsealed
	for i := range k.elsewhere {
		k.rewritten(&k.elsewhere[i], events, fmt.Sprintf("the log has %d and not this head: its end was cut off, or it is "+
			"another log", events))
	}
	k.elsewhere = nil
}
