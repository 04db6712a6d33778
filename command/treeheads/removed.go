package treeheads

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// settings are what another client of the store says about events of a stream to be removed.
type settings struct {
	stream    string
	Before    *uint64 `json:"$tb"`
	MaxCount  *uint64 `json:"$maxCount"`
	MaxAge    *uint64 `json:"$maxAge"`
	tombstone bool
	index     uint64 // of the event before which they stand
	removed   uint64
}

// describe takes in the metadata of a stream, or its end. That of a retired stream is as it should be.
func (w *walk) describe(e *eventstore.Recorded) {
	name, metadata := strings.CutPrefix(e.Stream, "$$")
	ends := e.Type == "$streamDeleted"
	tag := seal.TagOf(name)
	if _, retired := w.retired[tag]; retired {
		w.retired[tag] = w.retired[tag] || ends
		return
	}
	s := &settings{stream: name, tombstone: ends, index: w.kept.index}
	switch before := w.cuts[tag]; {
	case strings.HasPrefix(name, "$"), before != nil && before.tombstone:
	case ends:
		w.cuts[tag] = s
	case metadata:
		if json.Unmarshal(e.Data, s) != nil {
			s = &settings{stream: name}
		}
		w.cuts[tag] = s
	}
}

// removes reports whether an event may be gone by the metadata of its stream.
func (s *settings) removes(revision eventstore.Revision) bool {
	return s != nil && (s.tombstone || s.MaxCount != nil || s.MaxAge != nil ||
		s.Before != nil && uint64(revision) < *s.Before) //nolint:gosec // not negative
}

// deleted is $tb of a stream that was deleted and may begin again.
const deleted = 1<<63 - 1

func (s *settings) text() string {
	var parts []string
	switch {
	case s.tombstone:
		parts = append(parts, "tombstone")
	case s.Before != nil && *s.Before == deleted:
		parts = append(parts, "deleted")
	case s.Before != nil && *s.Before > 0:
		parts = append(parts, fmt.Sprintf("$tb %d", *s.Before))
	}
	if s.MaxCount != nil {
		parts = append(parts, fmt.Sprintf("$maxCount %d", *s.MaxCount))
	}
	if s.MaxAge != nil {
		parts = append(parts, fmt.Sprintf("$maxAge %d", *s.MaxAge))
	}
	return strings.Join(parts, ", ")
}

// classify separates the leaves of retired events from those of events that are missing, and names the streams that
// were cut.
func (w *walk) classify() {
	inOrder := func(a, b place) int { return cmp.Compare(w.gone[a], w.gone[b]) }
	for _, at := range slices.SortedFunc(maps.Keys(w.gone), inOrder) {
		s := w.cuts[at.tag]
		switch {
		case w.retired[at.tag]:
			w.report.Removed++
		case s.removes(at.revision):
			s.removed++
		default:
			w.report.fault(Fault{
				Kind:     Missing,
				Index:    w.gone[at],
				Stream:   unnamed + hex.EncodeToString(at.tag[:]),
				Revision: at.revision,
				Text:     "its leaf is kept, it is gone, and nothing in the store says so",
			})
		}
	}
	for _, ended := range w.retired {
		if ended {
			w.report.Retired++
		}
	}
	inOrderOfNames := func(a, b *settings) int { return cmp.Compare(a.stream, b.stream) }
	for _, s := range slices.SortedFunc(maps.Values(w.cuts), inOrderOfNames) {
		if text := s.text(); text != "" {
			w.report.fault(Fault{
				Kind:   Cut,
				Index:  s.index,
				Stream: s.stream,
				Text: fmt.Sprintf("%s by another client of the event store: no sealed retirement names the stream; %d of its "+
					"events are gone, their leaves are kept", text, s.removed),
			})
		}
	}
}

// unnamed begins the name of a stream of which only the beginning of its name's hash is known.
const unnamed = "sha256:"

// name finds the names of the streams of missing events: by other events of them, if any are left.
func (w *walk) name(
	ctx context.Context, all func(context.Context) iter.Seq2[eventstore.Recorded, error],
) error {
	wanted := map[string][]int{}
	for i := range w.report.Faults {
		if f := &w.report.Faults[i]; strings.HasPrefix(f.Stream, unnamed) {
			wanted[f.Stream] = append(wanted[f.Stream], i)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	for e, err := range all(ctx) {
		if err != nil {
			return err
		}
		tag := seal.TagOf(e.Stream)
		key := unnamed + hex.EncodeToString(tag[:])
		for _, i := range wanted[key] {
			w.report.Faults[i].Stream = e.Stream
		}
		if delete(wanted, key); len(wanted) == 0 {
			break
		}
	}
	return nil
}
