package treeheads_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
)

var trusted = []ed25519.PublicKey{own.Public().(ed25519.PublicKey)}

// export is the export of two streams, which continues the first head.
func export(t *testing.T) (lines []string, heads []seal.Head) {
	t.Helper()
	l, heads := sealed(t)
	l.add(t, 7)
	var out bytes.Buffer
	streams := []string{(*l)[0].Stream, (*l)[1].Stream}
	wanted := treeheads.Wanted{Streams: streams, Since: heads[0].Size}
	if err := sealer(l).Export(t.Context(), &out, wanted, nil); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(out.String())), heads
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
	if len(verified.Faults) > 0 || verified.Events != len(lines)-2 || verified.Unsealed != 2 || verified.Elsewhere != 2 {
		t.Errorf("%+v", verified)
	}
	forged := heads[0]
	forged.Root = bytes.Repeat([]byte("x"), 32)
	for _, kept := range []seal.Head{forged, heads[1]} { // of another log, and one that no proof is about
		if verified := verifyExport(t, lines, kept); len(verified.Faults) == 0 {
			t.Errorf("fits a head of %d events", kept.Size)
		}
	}
}

var town, library, school = uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}

// withheldExport is the export of two streams for an organization. Two organizations write in the first one.
func withheldExport(t *testing.T, reader uuid.UUID) ([]string, error) {
	t.Helper()
	l := &log{}
	shared, other := "item-"+uuid.NewString(), "item-"+uuid.NewString()
	last := map[string]eventstore.Revision{shared: eventstore.NoStream, other: eventstore.NoStream}
	for _, e := range []struct {
		stream string
		of     uuid.UUID
	}{{shared, town}, {shared, library}, {shared, uuid.Nil}, {shared, town}, {other, library}, {other, uuid.Nil}} {
		done, err := l.Append(t.Context(), e.stream, last[e.stream], []eventstore.Proposed{{
			ID:       uuid.New(),
			Type:     "item.feedback-given.v1",
			Data:     []byte(`{}`),
			Metadata: fmt.Appendf(nil, `{"organization":%q,"actor":"key:ab12CD34"}`, e.of),
		}})
		if err != nil {
			t.Fatal(err)
		}
		last[e.stream] = done.Revision
	}
	if _, err := sealer(l).Seal(t.Context(), by); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	wanted := treeheads.Wanted{Streams: []string{shared, other}, Organization: reader}
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
		if err != nil || len(got.Faults) > 0 || got.Events != want.Events || got.Withheld != want.Withheld {
			t.Errorf("reader %s: %+v, %v, want %+v", reader, got, err, want)
		}
		for _, line := range lines[1 : len(lines)-1] {
			var e seal.ExportEvent
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Fatal(err)
			}
			for _, other := range []uuid.UUID{town, library} {
				if reader != uuid.Nil && other != reader && strings.Contains(string(e.Metadata), other.String()) {
					t.Errorf("%s reads an event of %s", reader, other)
				}
			}
		}
	}
	if _, err := withheldExport(t, school); !errors.Is(err, treeheads.ErrNothing) {
		t.Errorf("an organization without any event of it: %v", err)
	}
}

func TestExportOfNothing(t *testing.T) {
	t.Parallel()
	l := &log{}
	l.add(t, 3)
	for want, of := range map[error]*log{treeheads.ErrUnsealed: l, treeheads.ErrNothing: first(sealed(t))} {
		wanted := treeheads.Wanted{Streams: []string{"feed-none"}}
		if err := sealer(of).Export(t.Context(), &bytes.Buffer{}, wanted, nil); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

func first(l *log, _ []seal.Head) *log { return l }

// Any change of a file is found: of each member of each line, and of the lines themselves.
func TestExportDoctored(t *testing.T) {
	t.Parallel()
	lines, _ := export(t)
	all := doctored(t, lines)
	for name, lines := range all {
		if verified := verifyExport(t, lines); len(verified.Faults) == 0 {
			t.Errorf("not found: %s", name)
		}
	}
	t.Logf("%d doctored files", len(all))
}

// doctored are the lines of an export, changed in every way by itself.
func doctored(t *testing.T, lines []string) map[string][]string {
	t.Helper()
	all := map[string][]string{"nothing": nil}
	for i, line := range lines {
		all[fmt.Sprintf("line %d is cut", i)] = slices.Delete(slices.Clone(lines), i, i+1)
		all[fmt.Sprintf("line %d is there twice", i)] = slices.Insert(slices.Clone(lines), i, line)
		if i > 0 {
			swapped := slices.Clone(lines)
			swapped[i-1], swapped[i] = swapped[i], swapped[i-1]
			all[fmt.Sprintf("line %d is moved", i)] = swapped
		}
		var members map[string]any
		if err := json.Unmarshal([]byte(line), &members); err != nil {
			t.Fatal(err)
		}
		written := slices.Clone(lines)
		written[i] = strings.TrimSuffix(line, "\n") + " 1\n"
		all[fmt.Sprintf("line %d has another value", i)] = written
		if i < len(lines)-1 {
			ended := slices.Clone(lines)
			ended[i] = strings.TrimSuffix(line, "\n") + "\r\n"
			all[fmt.Sprintf("line %d has another end", i)] = ended
		}
		for path, changed := range variants(members) {
			text, err := json.Marshal(changed)
			if err != nil {
				t.Fatal(err)
			}
			other := slices.Clone(lines)
			other[i] = string(text) + "\n"
			all[fmt.Sprintf("%s of line %d", path, i)] = other
		}
	}
	return all
}

// variants are objects of which one member is another.
func variants(members map[string]any) map[string]map[string]any {
	more := maps.Clone(members)
	more["more"] = "1"
	all := map[string]map[string]any{"more": more}
	for name, value := range members {
		with := func(path string, value any) {
			other := maps.Clone(members)
			other[name] = value
			all[path] = other
		}
		switch value := value.(type) {
		case string:
			with(name, flip(value))
			with(name+" with more", value+"!")
		case float64:
			with(name, value+1)
		case map[string]any:
			for path, inner := range variants(value) {
				with(name+"."+path, inner)
			}
		case []any:
			with(name, value[1:])
			with(name+"[0]", append([]any{flip(value[0].(string))}, value[1:]...))
		}
	}
	return all
}

// flip changes the first character of a text to another that is as good.
func flip(text string) string {
	if strings.HasPrefix(text, "0") {
		return "1" + text[1:]
	}
	return "0" + text[1:]
}
