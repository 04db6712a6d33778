package treeheads_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/command/treeheads"
	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// The parts of an export that may be changed before it is signed again.
type (
	head   = *seal.ExportHead
	events = *[]seal.ExportEvent
)

// doctored is an export that was changed, and a file of heads that were kept elsewhere.
type doctored struct {
	lines []string
	heads string // empty means none
	good  bool   // nothing was
}

// verify returns the exit code of "carillon audit verify", and what it prints.
func (d doctored) verify(t *testing.T, trusted []ed25519.PublicKey) (code int, report string) {
	t.Helper()
	var elsewhere []seal.Head
	if d.heads != "" {
		heads, err := seal.ReadHeads(strings.NewReader(d.heads))
		if err != nil {
			return 1, err.Error()
		}
		elsewhere = heads
	}
	verified, err := seal.VerifyExport(strings.NewReader(strings.Join(d.lines, "")), trusted, elsewhere)
	switch {
	case err != nil:
		return 1, err.Error()
	case len(verified.Faults) > 0:
		return 1, strings.Join(verified.Faults, "\n")
	case !verified.KeyPinned:
		code = 2
	}
	return code, strings.Join(verified.Report(), "\n")
}

// headLines are heads as they are kept, one a line.
func headLines(t *testing.T, heads ...seal.Head) string {
	t.Helper()
	var out bytes.Buffer
	for i := range heads {
		line := must.Get(heads[i].Line())(t)
		out.Write(line)
	}
	return out.String()
}

// Any change of a file is found: of each member of each line, of the lines themselves, of ranges that the server's own
// key has signed, and of heads that were kept elsewhere.
func TestExportDoctored(t *testing.T) {
	t.Parallel()
	all := exports(t)
	for name, file := range all {
		code, report := file.verify(t, trusted)
		assert.True(t, (code == 0) == file.good, "%s: %d, %s", name, code, report)
	}
	assert.True(t, len(all) >= 300, "%d files", len(all))
}

// exports are files that a verifier accepts, and others that it must not.
func exports(t *testing.T) map[string]doctored {
	t.Helper()
	lines, heads := export(t)
	withheld := must.Get(withheldExport(t, town))(t)
	_, linked := linkedExport(t)
	all := map[string]doctored{
		"untouched":           {lines: lines, good: true},
		"untouched, withheld": {lines: withheld, good: true},
		"untouched, linked":   {lines: linked, good: true},
		"untouched, of one":   {lines: exportOf(t, 1), good: true},
		"signed again":        {lines: signedAgain(t, lines, func(head, events) {}), good: true},
		"in another order":    {lines: unordered(t)},
		"empty":               {lines: []string{""}},
		"no heads":            {lines: lines, heads: "none\n"},
	}
	for name, changed := range changedLines(t, lines) {
		all[name] = doctored{lines: changed}
	}
	for name, change := range ranges(t) {
		all["signed again: "+name] = doctored{lines: signedAgain(t, lines, change)}
	}
	for name, change := range links() {
		all["signed again: "+name] = doctored{lines: signedAgain(t, linked, change)}
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
	for name, changed := range respelled(t, lines) {
		all["respelled: "+name] = doctored{lines: changed}
	}
	for name, elsewhere := range keptHeads(t, heads) {
		all["kept elsewhere: "+name] = doctored{
			lines: lines,
			heads: headLines(t, elsewhere...),
			good:  strings.HasPrefix(name, "good"),
		}
	}
	for name, text := range respelledHeads(headLines(t, heads[0]), headLines(t, heads[1])) {
		all["kept elsewhere: "+name] = doctored{
			lines: lines,
			heads: text,
			good:  strings.HasPrefix(name, "good"),
		}
	}
	return all
}

// exportOf is the export of a log of some events, all of one stream.
func exportOf(t *testing.T, count int, change ...func(*log)) []string {
	t.Helper()
	l, id := &log{}, uuid.New()
	for i := range count {
		l.put(t, "feed-"+id.String(), eventstore.Proposed{
			ID:       uuid.New(),
			Type:     "feed.revised.v1",
			Data:     fmt.Appendf(nil, `{"name":"Feed %d"}`, i),
			Metadata: []byte(`{"actor":"operator"}`),
		})
	}
	for _, change := range change {
		change(l)
	}
	must.Get(sealer(l).Seal(t.Context(), by))(t)
	var out bytes.Buffer
	wanted := treeheads.Wanted{ID: id, Categories: []string{"feed"}}
	must.OK(t, sealer(l).Export(t.Context(), &out, wanted, nil))
	return slices.Collect(strings.Lines(out.String()))
}

// unordered is an export of a log that has two events in the wrong order, in the order of their revisions.
func unordered(t *testing.T) []string {
	t.Helper()
	lines := exportOf(t, 4, func(l *log) {
		(*l)[1], (*l)[2] = (*l)[2], (*l)[1]
		l.number()
	})
	lines[2], lines[3] = lines[3], lines[2]
	return signedLines(lines)
}

// links are exports of which linked streams are not those that they should be.
func links() map[string]func(head, events) {
	return map[string]func(head, events){
		"linked, and not said": func(first head, _ events) { first.Streams[1].Linked = false },
		"linked, and its own":  func(first head, _ events) { first.Streams[0].Linked = true },
		"linked to another":    func(first head, _ events) { first.Asked[0] ^= 1 },
		"all linked to another": func(first head, all events) {
			first.Asked[0] ^= 1
			first.Streams, *all = first.Streams[1:], (*all)[2:]
		},
		"linked, its beginning withheld": func(first head, all events) {
			first.Streams[1].Withheld = []eventstore.Revision{0}
			*all = slices.Delete(*all, 2, 3)
		},
		"linked, its beginning left out": func(first head, all events) {
			first.Streams[1].First = 1
			*all = slices.Delete(*all, 2, 3)
		},
		"linked, one left out": func(_ head, all events) { *all = slices.Delete(*all, 3, 4) },
	}
}

// signedAgain returns an export that the server's key has signed with other contents.
func signedAgain(t *testing.T, lines []string, change func(head, events)) []string {
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
	must.OK(t, errors.Join(err, failed, w.End(own)))
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
func ranges(t *testing.T) map[string]func(head, events) {
	t.Helper()
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
		"withheld out of order": func(first head, all events) {
			first.Streams[0].Withheld = []eventstore.Revision{3, 2}
			*all = slices.Delete(*all, 2, 4)
		},
		"fewer than none unsealed": func(first head, _ events) { first.Unsealed = -5 },
		"nothing of a stream": func(first head, all events) {
			first.Streams[0].Last = -1
			*all = slices.Delete(*all, 0, 6)
		},
		"a head of no event": func(first head, all events) {
			first.Head, first.Streams, *all = seal.Sign(seal.NewTree(), nil, noon, own), nil, nil
		},
		"a head of no event, a stream": func(first head, all events) {
			first.Head, *all = seal.Sign(seal.NewTree(), nil, noon, own), nil
			first.Streams = []seal.ExportStream{{Stream: first.Streams[0].Stream, Last: -1}}
		},
		"a head of one event": func(first head, all events) {
			tree := seal.NewTree()
			tree.Append(seal.LeafHash((*all)[0].Recorded()))
			first.Head, first.Streams, *all = seal.Sign(tree, nil, noon, own), first.Streams[:1], (*all)[:1]
			first.Since, first.Consistency, first.Streams[0].Last = 0, nil, 0
		},
		"a head of another log": func(first head, _ events) {
			var other seal.ExportHead
			must.OK(t, json.Unmarshal([]byte(exportOf(t, 43)[0]), &other))
			first.Head = other.Head
		},
	}
}

// respelled are exports with a value in another spelling that says the same, or nearly, signed by the server's key.
func respelled(t *testing.T, lines []string) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for name, change := range map[string][3]string{
		"a zero with a sign":       {"0", `"first":0`, `"first":-0`},
		"an exponent":              {"0", `"unsealed":2`, `"unsealed":2e0`},
		"a large exponent":         {"0", `"unsealed":2`, `"unsealed":2e400`},
		"a fraction":               {"0", `"last":5`, `"last":5.0`},
		"a leading zero":           {"0", `"last":5`, `"last":05`},
		"a plus":                   {"0", `"last":5`, `"last":+5`},
		"a text":                   {"0", `"last":5`, `"last":"5"`},
		"not a number":             {"0", `"unsealed":2`, `"unsealed":NaN`},
		"true":                     {"0", `"unsealed":2`, `"unsealed":true`},
		"null":                     {"0", `"unsealed":2`, `"unsealed":null`},
		"too large":                {"0", `"unsealed":2`, `"unsealed":9223372036854775808`},
		"none withheld":            {"0", `"last":5}`, `"last":5,"withheld":[]}`},
		"withheld null":            {"0", `"last":5}`, `"last":5,"withheld":null}`},
		"not linked":               {"0", `"last":5}`, `"last":5,"linked":false}`},
		"linked a number":          {"0", `"last":5}`, `"last":5,"linked":1}`},
		"since none":               {"0", `"since":`, `"since":0,"was":`},
		"time with zeros":          {"0", `Z","kept"`, `.000000Z","kept"`},
		"time with an offset":      {"0", `Z","kept"`, `+00:00","kept"`},
		"another day":              {"0", `"at":"2026-11-27T`, `"at":"2026-11-31T`},
		"another digit":            {"0", `"at":"2026`, `"at":"２026`},
		"an escaped letter":        {"1", `"type":"f`, `"type":"\u0066`},
		"an escaped slash":         {"1", `"data":"`, `"data":"\/`},
		"an id with more":          {"1", `"id":"`, `"id":"urn:uuid:`},
		"a proof of numbers":       {"1", `"proof":["`, `"proof":[0,"`},
		"a proof of nothing":       {"1", `"proof":["`, `"proof":[null,"`},
		"an index with a sign":     {"1", `"index":`, `"index":-`},
		"an index as a fraction":   {"1", `,"stream"`, `.0,"stream"`},
		"a revision with a sign":   {"1", `"revision":0`, `"revision":-0`},
		"a byte order mark":        {"0", `{"export"`, "\uFEFF" + `{"export"`},
		"a space at the beginning": {"1", `{"index"`, ` {"index"`},
	} {
		i := int(change[0][0] - '0')
		changed := slices.Clone(lines)
		if changed[i] = strings.Replace(lines[i], change[1], change[2], 1); changed[i] == lines[i] {
			t.Errorf("%s changes nothing: %s", name, lines[i])
		}
		all[name] = signedLines(changed)
	}
	withheld := strings.Replace(lines[0], `"last":5}`, `"last":5,"withheld":[2.0]}`, 1)
	all["withheld as a fraction"] = signedLines(slices.Delete(slices.Concat([]string{withheld}, lines[1:]), 3, 4))
	return all
}

// respelledHeads are files with a head that the export continues, and one that it has no proof about.
func respelledHeads(first, between string) map[string]string {
	logged := `{"time":"2026-11-27T12:00:00Z","msg":"log sealed","n":1.50,`
	other := func(old, with string) string { return first + strings.Replace(between, old, with, 1) }
	return map[string]string{
		"good, in a log":         strings.Replace(first, "{", logged, 1),
		"good, after a mark":     "\uFEFF" + first,
		"good, after a cut one":  first[:40] + "\n" + first,
		"good, and numbers":      "1\n[2]\n{}\n" + first,
		"good, and a root alone": `{"root":"AA=="}` + "\n" + first,
		"a size as a fraction":   other(`,"root"`, `.0,"root"`),
		"a size with a sign":     other(`"size":`, `"size":-`),
		"a size too large":       other(`"size":`, `"size":9223372036854775808,"was":`),
		"a size of no event":     other(`{"size":`, `{"size":0,"was":`),
		"a member in capitals":   other(`"size"`, `"Size"`),
		"a member is missing":    other(`"kept"`, `"left"`),
		"a text for a size":      other(`"size":`, `"size":"1","was":`),
		"a root of nothing":      other(`"root":`, `"root":null,"was":`),
		"a root that is none":    other(`"root":"`, `"root":"!`),
		"a time that is none":    other(`"at":"2026`, `"at":"now`),
		"a time with zeros":      other(`Z","kept"`, `.0Z","kept"`),
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
