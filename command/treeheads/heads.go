package treeheads

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"carillon/aggregates/treehead"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// headOf returns the head that an event records.
func headOf(e *treehead.Signed) seal.Head {
	kept := sha256.Sum256(e.Leaves)
	return seal.Head{
		Size:      e.Size,
		Root:      e.Root,
		At:        e.At,
		Kept:      kept[:],
		Key:       e.Key,
		Signature: e.Signature,
	}
}

// read returns a recorded head by its number; found is false if there is none. The head that can't be decoded is there.
func read(ctx context.Context, store eventstore.Store, number uint64) (e treehead.Signed, found bool, err error) {
	stream := treehead.Aggregate.Stream(treehead.StreamID(number))
	for recorded, err := range store.Read(ctx, stream, 0) {
		if err != nil {
			return e, false, fmt.Errorf("read tree head %d: %w", number, err)
		}
		event, err := treehead.Events.Decode(&recorded)
		if err != nil {
			return e, true, err
		}
		switch event := event.(type) {
		case treehead.Signed:
			return event, true, nil
		}
	}
	return e, false, nil
}

// Count returns the number of recorded heads, of which known are known to be there.
func Count(ctx context.Context, store eventstore.Store, known uint64) (uint64, error) {
	low, step := known, uint64(1) // all before low are there
	for {
		found, err := exists(ctx, store, low+step-1)
		if err != nil {
			return 0, err
		}
		if !found {
			break
		}
		low, step = low+step, 2*step
	}
	high := low + step - 1 // is not there
	for low < high {
		middle := low + (high-low)/2
		found, err := exists(ctx, store, middle)
		switch {
		case err != nil:
			return 0, err
		case found:
			low = middle + 1
		default:
			high = middle
		}
	}
	return low, nil
}

func exists(ctx context.Context, store eventstore.Store, number uint64) (bool, error) {
	_, found, err := read(ctx, store, number)
	if errors.Is(err, eventstore.ErrUndecodable) {
		err = nil
	}
	return found, err
}
