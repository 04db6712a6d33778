package seal

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Verified is the outcome of the verification of an export.
type Verified struct {
	Asked     uuid.UUID      `json:"asked"` // the id of what was exported
	Streams   []ExportStream `json:"streams"`
	Head      Head           `json:"head"`
	KeyPinned bool           `json:"keyPinned"` // the head's key is one that the verifier was given
	Events    int            `json:"events"`    // that are in the tree
	Unsealed  int            `json:"unsealed"`  // that were left out, as they are newer than the head
	Withheld  int            `json:"withheld"`  // that were left out, as they belong to other organizations
	Elsewhere int            `json:"elsewhere"` // heads kept elsewhere that the export's head fits
	Missing   []string       `json:"missing"`   // sentences about what the export lacks
	Faults    []string       `json:"faults"`
}

// Report returns lines about an export without faults, which docs/operate/verify-export.py prints, too.
func (v *Verified) Report() []string {
	lines := []string{fmt.Sprintf("%d events of %s are in the tree of %d events of %s, signed by %s", v.Events, v.Asked,
		v.Head.Size, v.Head.At.UTC().Format(time.RFC3339Nano), KeyText(v.Head.Key))}
	for _, s := range v.Streams {
		there := "none between them is missing"
		if n := len(s.Withheld); n > 0 {
			there = fmt.Sprintf("all but %d withheld", n)
		}
		lines = append(lines, fmt.Sprintf("%s: events %d to %d, %s", s.Stream, s.First, s.Last, there))
	}
	for _, text := range v.Missing {
		lines = append(lines, "missing: "+text)
	}
	if len(v.Missing) == 0 {
		lines = append(lines, "nothing of it is missing up to the tree head")
	}
	if v.Elsewhere > 0 {
		lines = append(lines, fmt.Sprintf("heads kept elsewhere that it fits: %d", v.Elsewhere))
	}
	return lines
}

// maxExportLine is longer than any event with its proof, of which an event has 1 MiB at most, and than a first line
// that lists a million events that are withheld.
const maxExportLine = 16 << 20

// VerifyExport verifies an export without a server: the head by its signature and the trusted keys (any, if there are
// none: then no key is pinned), each event by its proof, each stream by its range, the file by its signature, and the
// head by those that were kept elsewhere.
func VerifyExport(from io.Reader, trusted []ed25519.PublicKey, elsewhere []Head) (Verified, error) {
	return ReadExport(from, trusted, elsewhere, func(*ExportEvent) {})
}

// ReadExport does what VerifyExport does, and calls each for every event. They are proved if there are no faults.
func ReadExport(
	from io.Reader, trusted []ed25519.PublicKey, elsewhere []Head, each func(*ExportEvent),
) (Verified, error) {
	v := &verification{each: each, lines: bufio.NewScanner(from), spans: map[string]*span{}}
	v.lines.Buffer(nil, maxExportLine)
	v.lines.Split(splitLines)
	if !v.lines.Scan() {
		return v.Verified, errors.Join(errors.New("the file is empty"), v.lines.Err())
	}
	first := bytes.Clone(v.lines.Bytes())
	head, err := ReadExportHead(first)
	if err != nil {
		return v.Verified, err
	}
	v.Asked, v.Streams, v.Head, v.Unsealed = head.Asked, head.Streams, head.Head, head.Unsealed
	v.KeyPinned = len(trusted) > 0 && trust(v.Head.Key, trusted) == nil
	v.open()
	if err := v.Head.Check(trusted); err != nil {
		v.fault("the head: %v", err)
	}
	v.Missing = head.Missing()
	v.compare(head, trusted, elsewhere)
	v.events(first)
	return v.Verified, v.lines.Err()
}

// splitLines is bufio.ScanLines that leaves carriage returns where they are: they change a file as other bytes do.
func splitLines(data []byte, atEnd bool) (advance int, line []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i], nil
	}
	if atEnd && len(data) > 0 {
		return len(data), data, nil
	}
	return 0, nil, nil
}

type verification struct {
	Verified

	each  func(*ExportEvent)
	lines *bufio.Scanner
	spans map[string]*span // by streams
}

// span is the part of a stream that is yet to come.
type span struct {
	ExportStream

	next  eventstore.Revision
	after uint64 // the index that the next event has at least
	named bool   // its first event names the asked id
}

// pass passes over events that are withheld.
func (s *span) pass() {
	for len(s.Withheld) > 0 && s.Withheld[0] == s.next {
		s.next++
		s.Withheld = s.Withheld[1:]
	}
}

// open begins the ranges of all streams.
func (v *verification) open() {
	for _, stream := range v.Streams {
		own := strings.HasSuffix(stream.Stream, "-"+v.Asked.String())
		if _, twice := v.spans[stream.Stream]; twice || own == stream.Linked {
			v.fault("stream %s is not one of %s, which was asked for, or listed twice", stream.Stream, v.Asked)
		}
		if stream.First < 0 || stream.Last < stream.First {
			v.fault("stream %s has no events from %d to %d", stream.Stream, stream.First, stream.Last)
		}
		v.spans[stream.Stream] = &span{ExportStream: stream, next: stream.First}
		v.Withheld += len(stream.Withheld)
	}
	if len(v.Streams) == 0 {
		v.fault("no stream is listed")
	}
	if v.Unsealed < 0 {
		v.fault("%d events are not sealed", v.Unsealed)
	}
}

// complete finds streams whose ranges are not complete.
func (v *verification) complete() {
	for _, stream := range v.Streams {
		s := v.spans[stream.Stream]
		if s.pass(); s.next != stream.Last+1 || len(s.Withheld) > 0 {
			v.fault("%s: the events from %d on are missing, up to %d", stream.Stream, s.next, stream.Last)
		}
		if stream.Linked && !s.named {
			v.fault("%s: its first event does not name %s, which was asked for", stream.Stream, v.Asked)
		}
	}
}

func (v *verification) fault(format string, args ...any) {
	v.Faults = append(v.Faults, fmt.Sprintf(format, args...))
}

// compare compares the head with those that were kept elsewhere.
func (v *verification) compare(export *ExportHead, trusted []ed25519.PublicKey, elsewhere []Head) {
	bySize := map[uint64]*Head{v.Head.Size: &v.Head}
	for i := range elsewhere {
		kept := &elsewhere[i]
		var err error
		if one, known := bySize[kept.Size]; known && !one.Same(kept) {
			err = errors.New("two heads of one size differ")
		}
		bySize[kept.Size] = kept
		switch kept.Size {
		case v.Head.Size:
		case export.Since:
			err = errors.Join(err, v.Head.Continues(kept, export.Consistency))
		default:
			if err == nil {
				continue // no proof in the file is about it
			}
		}
		if err = errors.Join(err, kept.Check(trusted)); err != nil {
			v.fault("the head does not fit the one that was kept elsewhere and covers %d events: %v", kept.Size, err)
			continue
		}
		v.Elsewhere++
	}
	if len(elsewhere) > 0 && v.Elsewhere == 0 && len(v.Faults) == 0 {
		v.fault("no head that was kept elsewhere has the size of the export's (%d), or of the one that it continues (%d): "+
			"export it with --head", v.Head.Size, export.Since)
	}
}

// events verifies all lines after the first.
func (v *verification) events(first []byte) {
	sum, lines, ended := sha256.New(), 1, false
	_, _ = sum.Write(append(first, '\n')) // never fails
	for v.lines.Scan() {
		lines++
		if ended {
			v.fault("line %d follows the end of the export", lines)
			continue
		}
		line := v.lines.Bytes()
		var end exportEnd
		if strictly(line, &end) == nil && end.Signature != nil {
			ended = true
			v.end(&end, sum.Sum(nil), lines-2) //nolint:mnd // the first line, and this one
			continue
		}
		_, _ = sum.Write(append(bytes.Clone(line), '\n'))
		var e ExportEvent
		if err := strictly(line, &e); err != nil {
			v.fault("line %d is no event: %v", lines, err)
			continue
		}
		v.event(&e, lines)
		v.each(&e)
	}
	v.complete()
	if !ended {
		v.fault("the end is missing: the file was cut, or the export broke off")
	}
}

func (v *verification) event(e *ExportEvent, line int) {
	where := fmt.Sprintf("line %d, event %d of %s", line, e.Revision, e.Stream)
	if err := v.Head.Included(e.Index, e.leaf(), e.Proof); err != nil {
		v.fault("%s: it is not in the tree of the head: it, its index or its proof was changed", where)
	} else {
		v.Events++
	}
	s := v.spans[e.Stream]
	if s == nil {
		v.fault("%s: the stream is not listed", where)
		return
	}
	if s.pass(); e.Revision != s.next {
		v.fault("%s: event %d should follow there", where, s.next)
	}
	if e.Index < s.after {
		v.fault("%s: it stands before an earlier event of its stream in the order of all", where)
	}
	s.named = s.named || e.Revision == 0 && e.names(v.Asked)
	s.next, s.after = e.Revision+1, e.Index+1
}

func (v *verification) end(end *exportEnd, sum []byte, events int) {
	switch {
	case len(v.Head.Key) != ed25519.PublicKeySize || !ed25519.Verify(v.Head.Key, end.text(), end.Signature):
		v.fault("the signature of the file does not fit: its last line was changed")
	case !bytes.Equal(sum, end.SHA256):
		v.fault("the file was changed since it was signed: its SHA-256 is another")
	case end.Events != events:
		v.fault("the file was changed since it was signed: it has %d events instead of %d", events, end.Events)
	}
}
