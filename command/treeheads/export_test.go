package treeheads_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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
	wanted := treeheads.Wanted{
		ID:         idOf(streamOf(0)),
		Categories: []string{"item", "feed", "source"},
		Since:      heads[0].Size,
	}
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
	want := []seal.ExportStream{{Stream: streamOf(0), Last: 5}, {Stream: streamOf(1), Last: 5}}
	if diff := cmp.Diff(want, verified.Streams); diff != "" || verified.Asked != idOf(streamOf(0)) || !verified.KeyPinned {
		t.Errorf("of %s, key pinned %v (-want +got):\n%s", verified.Asked, verified.KeyPinned, diff)
	}
	unpinned, err := seal.VerifyExport(strings.NewReader(strings.Join(lines, "")), nil, nil)
	if err != nil || len(unpinned.Faults) > 0 || unpinned.KeyPinned {
		t.Errorf("without a key: %+v, %v", unpinned, err)
	}
}

var town, library, school = uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}

// withheldExport is the export of two streams for an organization. Two organizations write in the first one.
func withheldExport(t *testing.T, reader uuid.UUID) ([]string, error) {
	t.Helper()
	l := &log{}
	id := uuid.New()
	shared, other := "item-"+id.String(), "feed-"+id.String()
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
		wanted := treeheads.Wanted{ID: uuid.New(), Categories: []string{"feed"}}
		if err := sealer(of).Export(t.Context(), &bytes.Buffer{}, wanted, nil); !errors.Is(err, want) {
			t.Errorf("%v, want %v", err, want)
		}
	}
}

func first(l *log, _ []seal.Head) *log { return l }

// doctored is an export that was changed, and heads that were kept elsewhere.
type doctored struct {
	lines []string
	heads []seal.Head
	good  bool // nothing was
}

// Any change of a file is found: of each member of each line, of the lines themselves, of ranges that the server's own
// key has signed, and of heads that were kept elsewhere.
func TestExportDoctored(t *testing.T) {
	t.Parallel()
	all := exports(t)
	for name, file := range all {
		if verified := verifyExport(t, file.lines, file.heads...); (len(verified.Faults) == 0) != file.good {
			t.Errorf("%s: %q", name, verified.Faults)
		}
	}
	if len(all) < 300 {
		t.Errorf("%d files", len(all))
	}
}

// exports are files that a verifier accepts, and others that it must not.
func exports(t *testing.T) map[string]doctored {
	t.Helper()
	lines, heads := export(t)
	withheld, err := withheldExport(t, town)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]doctored{
		"untouched":           {lines: lines, good: true},
		"untouched, withheld": {lines: withheld, good: true},
		"signed again":        {lines: signedAgain(t, lines, func(*seal.ExportHead, *[]seal.ExportEvent) {}), good: true},
	}
	for name, changed := range changedLines(t, lines) {
		all[name] = doctored{lines: changed}
	}
	for name, change := range ranges() {
		all["signed again: "+name] = doctored{lines: signedAgain(t, lines, change)}
	}
	for name, change := range spellings() {
		for i := range []int{0, 1} {
			changed := slices.Clone(lines)
			if changed[i] = change(lines[i]); changed[i] == lines[i] {
				t.Errorf("%s changes nothing in line %d", name, i)
			}
			all[fmt.Sprintf("signed again: %s in line %d", name, i)] = doctored{lines: signedLines(changed)}
		}
	}
	for name, elsewhere := range keptHeads(t, heads) {
		all["kept elsewhere: "+name] = doctored{
			lines: lines,
			heads: elsewhere,
			good:  strings.HasPrefix(name, "good"),
		}
	}
	return all
}

// signedAgain returns an export that the server's key has signed with other contents.
func signedAgain(t *testing.T, lines []string, change func(*seal.ExportHead, *[]seal.ExportEvent)) []string {
	t.Helper()
	var first seal.ExportHead
	events := make([]seal.ExportEvent, len(lines)-2)
	err := json.Unmarshal([]byte(lines[0]), &first)
	for i := range events {
		err = errors.Join(err, json.Unmarshal([]byte(lines[i+1]), &events[i]))
	}
	change(&first, &events)
	var out bytes.Buffer
	w, failed := seal.NewExportWriter(&out, &first)
	for _, e := range events {
		failed = errors.Join(failed, w.Event(e.Recorded(), e.Index, e.Proof))
	}
	if err := errors.Join(err, failed, w.End(own)); err != nil {
		t.Fatal(err)
	}
	return slices.Collect(strings.Lines(out.String()))
}

// signedLines ends changed lines as the server's key would.
func signedLines(lines []string) []string {
	sum := sha256.Sum256([]byte(strings.Join(lines[:len(lines)-1], "")))
	text := base64.StdEncoding.EncodeToString(sum[:])
	signature := ed25519.Sign(own, fmt.Appendf(nil, "carillon export v2\n%d\n%s\n", len(lines)-2, text))
	return append(lines[:len(lines)-1], fmt.Sprintf(`{"events":%d,"sha256":%q,"signature":%q}`+"\n", len(lines)-2, text,
		base64.StdEncoding.EncodeToString(signature)))
}

// ranges are exports of which events, or the streams that they are of, are not those that were asked for.
func ranges() map[string]func(first *seal.ExportHead, events *[]seal.ExportEvent) {
	type (
		head   = *seal.ExportHead
		events = *[]seal.ExportEvent
	)
	drop := func(i, n int) func(head, events) {
		return func(_ head, all events) { *all = slices.Delete(*all, i, i+n) }
	}
	return map[string]func(head, events){
		"the first event is gone": drop(0, 1),
		"one is gone":             drop(2, 1),
		"the last of a stream":    drop(5, 1),
		"the last":                drop(11, 1),
		"all of a stream":         drop(6, 6),
		"all":                     drop(0, 12),
		"twice":                   func(_ head, all events) { *all = slices.Insert(*all, 3, (*all)[2]) },
		"swapped":                 func(_ head, all events) { (*all)[1], (*all)[2] = (*all)[2], (*all)[1] },
		"a stream is not listed":  func(first head, _ events) { first.Streams = first.Streams[:1] },
		"a stream more":           func(first head, _ events) { first.Streams = append(first.Streams, first.Streams[0]) },
		"no stream":               func(first head, all events) { first.Streams, *all = nil, nil },
		"another id":              func(first head, _ events) { first.Asked[0] ^= 1 },
		"begins later":            func(first head, _ events) { first.Streams[0].First = 1 },
		"begins earlier":          func(first head, _ events) { first.Streams[1].First = -1 },
		"ends earlier":            func(first head, _ events) { first.Streams[0].Last-- },
		"ends later":              func(first head, _ events) { first.Streams[0].Last++ },
		"withheld and there":      func(first head, _ events) { first.Streams[0].Withheld = []eventstore.Revision{2} },
		"withheld after the end":  func(first head, _ events) { first.Streams[0].Withheld = []eventstore.Revision{6} },
		"another one is withheld": func(first head, all events) {
			first.Streams[0].Withheld = []eventstore.Revision{3}
			*all = slices.Delete(*all, 2, 3)
		},
	}
}

// spellings write a line in another way that says the same, or more.
func spellings() map[string]func(line string) string {
	return map[string]func(line string) string{
		"a member more":   func(line string) string { return strings.Replace(line, "{", `{"more":1,`, 1) },
		"a member at end": func(line string) string { return strings.TrimSuffix(line, "}\n") + `,"more":1}` + "\n" },
		"a member twice": func(line string) string {
			return strings.TrimSuffix(line, "}\n") + `,"proof":[],"unsealed":2}` + "\n"
		},
		"another case": func(line string) string {
			return strings.NewReplacer(`"unsealed"`, `"Unsealed"`, `"index"`, `"Index"`).Replace(line)
		},
		"a space": func(line string) string { return strings.Replace(line, ":", ": ", 1) },
		"a float": func(line string) string {
			return regexp.MustCompile(`"(unsealed|revision)":\d+`).ReplaceAllString(line, "$0.0")
		},
	}
}

// keptHeads are heads that were kept elsewhere, beside an export that continues the first one and is of the last one.
func keptHeads(t *testing.T, heads []seal.Head) map[string][]seal.Head {
	t.Helper()
	first, last := heads[0], heads[3]
	change := func(head seal.Head, change func(*seal.Head)) seal.Head {
		change(&head)
		return head
	}
	dated := func(head seal.Head, key ed25519.PrivateKey) seal.Head {
		head.At, head.Key = head.At.Add(time.Hour), key.Public().(ed25519.PublicKey)
		text := base64.StdEncoding.EncodeToString
		head.Signature = ed25519.Sign(key, fmt.Appendf(nil, "carillon tree head v1\n%d\n%s\n%s\n%s\n", head.Size,
			text(head.Root), head.At.Format("2006-01-02T15:04:05.000000Z"), text(head.Kept)))
		return head
	}
	all := map[string][]seal.Head{
		"good":                      {first, last},
		"good, twice":               {last, last},
		"good, and one between":     {first, heads[1]},
		"none of them":              {heads[1], heads[2]},
		"another date":              {dated(last, own)},
		"another date of the first": {first, dated(first, own)},
		"two that differ":           {last, heads[1], dated(heads[1], own)},
		"another key":               {dated(last, evil)},
		"another key of the first":  {dated(first, evil)},
	}
	for name, head := range map[string]seal.Head{"first": first, "last": last} {
		for member, do := range map[string]func(*seal.Head){
			"root":      func(h *seal.Head) { h.Root = bytes.Repeat([]byte("x"), 32) },
			"date":      func(h *seal.Head) { h.At = h.At.Add(time.Hour) },
			"kept":      func(h *seal.Head) { h.Kept = bytes.Repeat([]byte("x"), 32) },
			"key":       func(h *seal.Head) { h.Key = bytes.Repeat([]byte{2}, 32) },
			"signature": func(h *seal.Head) { h.Signature = bytes.Repeat([]byte{1}, 64) },
		} {
			all["forged "+member+" of the "+name] = []seal.Head{change(head, do)}
		}
	}
	return all
}

// changedLines are the lines of an export, changed in every way by itself.
func changedLines(t *testing.T, lines []string) map[string][]string {
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
			if text, ok := value[0].(string); ok {
				with(name+"[0]", append([]any{flip(text)}, value[1:]...))
				continue
			}
			for path, inner := range variants(value[0].(map[string]any)) {
				with(name+"[0]."+path, append([]any{inner}, value[1:]...))
			}
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
