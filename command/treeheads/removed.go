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

// settings are what the metadata of a stream says about events to be removed.
type settings struct {
	stream    string
	Before    *uint64 `json:"$tb"`
	MaxCount  *uint64 `json:"$maxCount"`
	MaxAge    *uint64 `json:"$maxAge"`
	tombstone bool
	removed   uint64
}

// describe takes in the metadata of a stream, or its end.
func (w *walk) describe(e *eventstore.Recorded) {
	name, metadata := strings.CutPrefix(e.Stream, "$$")
	switch {
	case strings.HasPrefix(name, "$"):
	case e.Type == "$streamDeleted":
		w.shortened[seal.TagOf(name)] = &settings{stream: name, tombstone: true}
	case metadata:
		s := &settings{stream: name}
		if json.Unmarshal(e.Data, s) != nil {
			s = &settings{stream: name}
		}
		if before := w.shortened[seal.TagOf(name)]; before == nil || !before.tombstone {
			w.shortened[seal.TagOf(name)] = s
		}
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

// judge separates the leaves of removed events from those of events that are missing.
func (w *walk) judge() {
	inOrder := func(a, b place) int { return cmp.Compare(w.gone[a], w.gone[b]) }
	for _, at := range slices.SortedFunc(maps.Keys(w.gone), inOrder) {
		if s := w.shortened[at.tag]; s.removes(at.revision) {
			s.removed++
			w.report.Removed++
			continue
		}
		w.report.fault(Fault{
			Kind:     Missing,
			Index:    w.gone[at],
			Stream:   unnamed + hex.EncodeToString(at.tag[:]),
			Revision: at.revision,
			Text:     "its leaf is kept, it is gone, and no metadata of its stream says so",
		})
	}
	for _, s := range w.shortened {
		if s.tombstone && slices.Contains(retiring, categoryOf(s.stream)) {
			w.report.Retired++
			continue
		}
		if text := s.text(); text != "" {
			w.report.Shortened = append(w.report.Shortened, Shortened{
				Stream:  s.stream,
				Setting: text,
				Removed: s.removed,
			})
		}
	}
	slices.SortFunc(w.report.Shortened, func(a, b Shortened) int { return cmp.Compare(a.Stream, b.Stream) })
}

// retiring are the categories whose streams end when they are retired: there are many.
var retiring = []string{"publication", "dispatch", "delivery", "happening", "item"}

func categoryOf(stream string) string {
	category, _, _ := strings.Cut(stream, "-")
	return category
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
