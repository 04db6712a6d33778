package treeheads_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var trusted = []ed25519.PublicKey{own.Public().(ed25519.PublicKey)}

// export is the export of two streams, which continues the first head.
func export(t *testing.T) (lines []string, heads []seal.Head) {
	t.Helper()
	l, heads := sealed(t)
	l.add(t, 7)
	var out bytes.Buffer
	wanted := treeheads.Wanted{
		ID:         idOf(streamOf(0)),
		Categories: []string{"item", "feed", "source"},
		Since:      heads[0].Size,
	}
	must.OK(t, sealer(l).Export(t.Context(), &out, wanted, nil))
	return slices.Collect(strings.Lines(out.String())), heads
}

// linkedExport is the export of a destination with a subscription and a disclosure. Two of its events are not sealed.
func linkedExport(t *testing.T) (id uuid.UUID, lines []string) {
	t.Helper()
	l, id := &log{}, uuid.New()
	own := "destination-" + id.String()
	linked := []string{"subscription-", "disclosure-", "disclosure-"}
	for i := range linked {
		linked[i] += uuid.NewString()
	}
	add := func(stream string) {
		l.put(t, stream, eventstore.Proposed{
			ID:       uuid.New(),
			Type:     "disclosure.shown.v1",
			Data:     fmt.Appendf(nil, `{"destination":%q}`, id),
			Metadata: []byte(`{"actor":"key:ab12CD34"}`),
		})
	}
	for _, stream := range []string{own, linked[0], own, linked[1], linked[0]} {
		add(stream)
	}
	must.Get(sealer(l).Seal(t.Context(), by))(t)
	add(linked[1])
	add(linked[2])
	var out bytes.Buffer
	wanted := treeheads.Wanted{ID: id, Categories: []string{"destination", "feed"}, Linked: linked}
	must.OK(t, sealer(l).Export(t.Context(), &out, wanted, nil))
	return id, slices.Collect(strings.Lines(out.String()))
}

// Streams of other ids that name the asked one are exported with it, and unsealed events are counted.
func TestExportLinked(t *testing.T) {
	t.Parallel()
	id, lines := linkedExport(t)
	got := verifyExport(t, lines)
	assert.True(t, len(got.Faults) == 0 && got.Events == 5 && got.Asked == id && len(got.Streams) == 3 &&
		got.Unsealed == 2, "%+v", got)
	text := strings.Join(got.Report(), "\n")
	for _, part := range []string{
		"5 events of " + id.String() + " are in the tree of 5 events of " + got.Head.At.UTC().Format(time.RFC3339Nano) +
			", signed by " + seal.KeyText(trusted[0]),
		"destination-" + id.String() + ": events 0 to 1, none between them is missing",
		"missing: 2 events newer than the tree head, not sealed yet",
	} {
		assert.True(t, strings.Contains(text, part), "the report lacks %q: %s", part, text)
	}
}

func verifyExport(t *testing.T, lines []string, elsewhere ...seal.Head) seal.Verified {
	t.Helper()
	verified, err := seal.VerifyExport(strings.NewReader(strings.Join(lines, "")), trusted, elsewhere)
	if err != nil {
		verified.Faults = append(verified.Faults, err.Error())
	}
	return verified
}

func TestExport(t *testing.T) {
	t.Parallel()
	lines, heads := export(t)
	verified := verifyExport(t, lines, heads[0], heads[3])
	assert.True(t, len(verified.Faults) == 0 && verified.Events == len(lines)-2 && verified.Unsealed == 2 &&
		verified.Elsewhere == 2, "%+v", verified)
	want := []seal.ExportStream{{Stream: streamOf(0), Last: 5}, {Stream: streamOf(1), Last: 5}}
	if diff := cmp.Diff(want, verified.Streams); diff != "" || verified.Asked != idOf(streamOf(0)) || !verified.KeyPinned {
		t.Errorf("of %s, key pinned %v (-want +got):\n%s", verified.Asked, verified.KeyPinned, diff)
	}
	unpinned, err := seal.VerifyExport(strings.NewReader(strings.Join(lines, "")), nil, nil)
	assert.True(t, err == nil && len(unpinned.Faults) == 0 && !unpinned.KeyPinned, "without a key: %+v, %v", unpinned, err)
}

var town, library, school = uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}

// withheldExport is the export of two streams for an organization. Two organizations write in the first one.
func withheldExport(t *testing.T, reader uuid.UUID) ([]string, error) {
	t.Helper()
	l := &log{}
	id := uuid.New()
	shared, other := "item-"+id.String(), "feed-"+id.String()
	for _, e := range []struct {
		stream string
		of     uuid.UUID
	}{{shared, town}, {shared, library}, {shared, uuid.Nil}, {shared, town}, {other, library}, {other, uuid.Nil}} {
		l.put(t, e.stream, eventstore.Proposed{
			ID:       uuid.New(),
			Type:     "item.feedback-given.v1",
			Data:     []byte(`{}`),
			Metadata: fmt.Appendf(nil, `{"organization":%q,"actor":"key:ab12CD34"}`, e.of),
		})
	}
	must.Get(sealer(l).Seal(t.Context(), by))(t)
	var out bytes.Buffer
	wanted := treeheads.Wanted{ID: id, Categories: []string{"item", "feed"}, Organization: reader}
	err := sealer(l).Export(t.Context(), &out, wanted, nil)
	return slices.Collect(strings.Lines(out.String())), err
}

func TestHostileExportOfSharedStream(t *testing.T) {
	t.Parallel()
	for reader, want := range map[uuid.UUID]seal.Verified{
		uuid.Nil: {Events: 6},
		town:     {Events: 3, Withheld: 1},
		library:  {Events: 3, Withheld: 3},
	} {
		lines, err := withheldExport(t, reader)
		got := verifyExport(t, lines)
		assert.True(t, err == nil && len(got.Faults) == 0 && got.Events == want.Events && got.Withheld == want.Withheld,
			"reader %s: %+v, %v, want %+v", reader, got, err, want)
		for _, line := range lines[1 : len(lines)-1] {
			var e seal.ExportEvent
			must.OK(t, json.Unmarshal([]byte(line), &e))
			for _, other := range []uuid.UUID{town, library} {
				if reader != uuid.Nil && other != reader && strings.Contains(string(e.Metadata), other.String()) {
					t.Errorf("%s reads an event of %s", reader, other)
				}
			}
		}
	}
	assert.Is(t, assert.Err(withheldExport(t, school)), treeheads.ErrNothing, "an organization without any event of it")
}

func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.add(t, 3)
	for want, of := range map[error]*log{treeheads.ErrUnsealed: l, treeheads.ErrNothing: first(sealed(t))} {
		wanted := treeheads.Wanted{ID: uuid.New(), Categories: []string{"feed"}}
		assert.Is(t, sealer(of).Export(t.Context(), &bytes.Buffer{}, wanted, nil), want, "Export")
	}
}

func first(l *log, _ []seal.Head) *log { return l }
