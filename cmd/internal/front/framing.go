package front

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Errors in the framing of a request. net/http answers each with 400 and closes the connection.
var (
	errBareLine  = errors.New("a line of the request does not end with CR LF, or holds a bare CR")
	errFolded    = errors.New("a header of the request is folded")
	errTwoWays   = errors.New("the request says its length in two ways")
	errLength    = errors.New("the Content-Length of the request is not a number")
	errCoding    = errors.New("the Transfer-Encoding of the request is not chunked alone, or its protocol has none")
	errChunk     = errors.New("a chunk of the request is malformed")
	errLongLine  = errors.New("a line of the request is too long")
	errAfterLast = errors.New("there is more on the connection than was asked for")
)

const (
	maxLine      = maxHeaderBytes + 8<<10 // bytes of a line that are held
	maxHeader    = 1 << 20                // bytes of a request line and its header, passed on or not
	maxEssential = 8 << 10                // bytes of essential header lines that are passed on beyond maxHeaderBytes
	maxChunkLine = 4 << 10                // bytes of a chunk's size with its extensions
	maxSizeHex   = 15                     // digits of a chunk's size

	headHeld, tailHeld = 64, 16 // bytes of a line beyond maxLine
)

// framing follows the bytes of one connection from request to request, as RFC 9112 parts them.
type framing struct {
	state  state
	line   []byte // the present line so far
	left   int64  // bytes of the present body or chunk that are to come
	length int64  // as the header says; -1: it does not
	coded  bool   // the body comes in chunks
	old    bool   // HTTP/1.0
	last   bool   // net/http closes the connection after this request
	head   head
}

// head is the request line and header so far.
type head struct {
	read   int    // bytes
	passed int    // of those, bytes that were passed on
	cut    bool   // some were left out
	long   bool   // the middle of the present line is not held
	part   part   // of the request line
	escape []byte // a percent sign of the path and the digit after it, until the escape is whole
}

// part is a part of a request line.
type part int

const (
	inMethod part = iota
	inPath
	inQuery
	inProtocol
)

type state int

const (
	inRequestLine state = iota // the first line of a request
	inHeader
	inBody
	inChunkSize
	inChunk
	inChunkEnd // the CR LF after a chunk
	inTrailer
	ended
)

// follow reads the next bytes and returns those for net/http. They are the same, unless
//
//   - the path of a request has a percent sign that begins no escape, which is escaped itself: a handler sees %zz as
//     any other unknown name;
//   - a header is longer than maxHeaderBytes: the lines for which there is no room are left out, and cutHeader is
//     added.
//
// If they are malformed, it returns the error and the bytes before the malformed request. The result may be in the
// memory of p.
func (f *framing) follow(p []byte) (passed []byte, err error) {
	out := output{bytes: p[:0], shared: true}
	whole := 0
	for len(p) > out.read {
		if f.state == inRequestLine && len(f.line) == 0 {
			whole = len(out.bytes) // the requests before are whole
		}
		n, err := f.step(p[out.read:], &out)
		if err != nil {
			return out.bytes[:whole], err
		}
		out.read += n
	}
	return out.bytes, nil
}

// output collects the bytes to pass on, in the memory of the input as long as they fit there.
type output struct {
	bytes  []byte
	read   int // bytes that were read, all of which were judged
	shared bool
}

// add passes bytes on, when those of this step up to n were judged.
func (o *output) add(n int, more ...byte) {
	if o.shared && len(o.bytes)+len(more) > o.read+n {
		o.bytes, o.shared = slices.Clone(o.bytes), false
	}
	o.bytes = append(o.bytes, more...)
}

// step takes in the rest of a line or of a body.
func (f *framing) step(p []byte, out *output) (int, error) {
	switch f.state {
	case inBody, inChunk:
		n := min(int64(len(p)), f.left)
		if f.left -= n; f.left == 0 {
			f.state = map[state]state{inBody: inRequestLine, inChunk: inChunkEnd}[f.state]
		}
		out.add(int(n), p[:n]...)
		return int(n), nil
	case ended:
		return 0, errAfterLast
	case inRequestLine, inHeader, inChunkSize, inChunkEnd, inTrailer:
	}
	ends := bytes.IndexByte(p, '\n') + 1
	if ends > 0 {
		p = p[:ends]
	}
	in := f.state
	switch {
	case in == inRequestLine && len(f.line) == 0:
		f.head = head{read: len(p), escape: f.head.escape[:0]}
	case in == inRequestLine, in == inHeader:
		f.head.read += len(p)
	}
	if ends == 0 {
		err := f.hold(p)
		if err == nil && in != inHeader {
			f.pass(in, p, out)
		}
		return len(p), err
	}
	line := p
	if len(f.line) > 0 {
		f.line = append(f.line, p...)
		line = f.line
	}
	err := f.whole(line[:len(line)-1])
	switch {
	case err != nil:
	case in == inHeader:
		err = f.passHeaderLine(line, out, len(p))
	default:
		f.pass(in, p, out)
	}
	f.line, f.head.long = f.line[:0], false
	if cap(f.line) > maxHeaderBytes {
		f.line = nil
	}
	return len(p), err
}

// pass passes on a piece of a line that is not of a header. From here on the piece may be overwritten.
func (f *framing) pass(in state, piece []byte, out *output) {
	if in == inRequestLine {
		f.passRequestLine(piece, out)
		return
	}
	out.add(len(piece), piece...)
}

// hold keeps what has come of a line: all of it, or if it is a long one of a header, its ends.
func (f *framing) hold(p []byte) error {
	f.line = append(f.line, p...)
	if len(f.line) <= maxLine {
		return nil
	}
	if f.state != inRequestLine && f.state != inHeader || f.head.read > maxHeader {
		return errLongLine
	}
	if at := bytes.IndexByte(f.line, '\r'); at >= 0 && at < len(f.line)-1 {
		return errBareLine
	}
	f.line = append(f.line[:headHeld], f.line[len(f.line)-tailHeld:]...)
	f.head.long = true
	return nil
}

// passRequestLine passes on a piece of a request line.
func (f *framing) passRequestLine(piece []byte, out *output) {
	h := &f.head
	pass := func(n int, more ...byte) {
		if h.part != inProtocol && h.passed+len(more) > maxHeaderBytes {
			h.cut = true
			return
		}
		h.passed += len(more)
		out.add(n, more...)
	}
	for i, b := range piece {
		if len(h.escape) > 0 {
			if _, err := hex.DecodeString(string([]byte{'0', b})); err == nil {
				if h.escape = append(h.escape, b); len(h.escape) == len("%00") {
					pass(i+1, h.escape...)
					h.escape = h.escape[:0]
				}
				continue
			}
			pass(i, append([]byte("%25"), h.escape[1:]...)...)
			h.escape = h.escape[:0]
		}
		switch {
		case b == ' ' && h.part == inMethod:
			h.part = inPath
		case b == '\n', b == ' ' && h.part != inProtocol:
			h.part = inProtocol
		case b == '?' && h.part == inPath:
			h.part = inQuery
		case b == '%' && h.part == inPath:
			h.escape = append(h.escape, b)
			continue
		}
		pass(i+1, b)
	}
}

// passHeaderLine passes on a line of the header, if there is room for it. n bytes of this step were judged.
func (f *framing) passHeaderLine(line []byte, out *output, n int) error {
	h := &f.head
	if h.read > maxHeader {
		return errLongLine
	}
	if len(line) == len("\r\n") {
		if h.cut {
			out.add(n, []byte(cutHeader+": "+cutProof+"\r\n")...)
		}
		out.add(n, line...)
		return nil
	}
	name, _, found := strings.Cut(string(line[:min(len(line), headHeld)]), ":")
	room := maxHeaderBytes
	if essential(name) {
		room += maxEssential
	}
	if !h.long && h.passed+len(line) <= room {
		h.passed += len(line)
		out.add(n, line...)
		return nil
	}
	// Omitted lines are judged here alone: no line that others may take for a length is omitted.
	if !found || strings.ContainsFunc(name, func(r rune) bool { return r <= ' ' || r > '~' }) ||
		strings.EqualFold(name, "Content-Length") || strings.EqualFold(name, "Transfer-Encoding") {
		return errLongLine
	}
	h.cut = true
	return nil
}

// essential reports whether a header decides on who asks, or on how long the request is.
func essential(name string) bool {
	switch strings.ToLower(name) {
	case "host", "authorization", "content-length", "transfer-encoding", "x-forwarded-proto", "x-forwarded-for":
		return true
	}
	return false
}

// whole takes in a line, without its line feed.
func (f *framing) whole(line []byte) error {
	if at := bytes.IndexByte(line, '\r'); at < 0 || at != len(line)-1 {
		return errBareLine
	}
	text := string(line[:len(line)-1])
	switch f.state {
	case inRequestLine:
		if text == "" { // after a body; whether it is taken is the affair of net/http
			return nil
		}
		*f = framing{
			line:   f.line,
			state:  inHeader,
			length: -1,
			old:    strings.HasSuffix(text, " HTTP/1.0"),
			head:   f.head,
		}
		f.last = !f.old && !strings.HasSuffix(text, " HTTP/1.1")
	case inHeader:
		if text == "" {
			return f.body()
		}
		return f.header(text)
	case inChunkSize:
		return f.chunk(text)
	case inChunkEnd:
		if text != "" {
			return errChunk
		}
		f.state = inChunkSize
	case inTrailer:
		if text == "" {
			f.state = inRequestLine
		}
	case inBody, inChunk, ended:
	}
	return nil
}

// header takes in a line of the header.
func (f *framing) header(line string) error {
	if line[0] == ' ' || line[0] == '\t' {
		return errFolded
	}
	name, value, _ := strings.Cut(line, ":")
	value = strings.Trim(value, " \t")
	switch {
	case strings.EqualFold(name, "Content-Length"):
		if f.length >= 0 || f.coded {
			return errTwoWays
		}
		length, err := strconv.ParseUint(value, 10, 63)
		if err != nil || value[0] == '+' {
			return errLength
		}
		f.length = int64(length) //nolint:gosec // of 63 bits
	case strings.EqualFold(name, "Transfer-Encoding"):
		if f.length >= 0 || f.coded {
			return errTwoWays
		}
		if f.old || !strings.EqualFold(value, "chunked") {
			return errCoding
		}
		f.coded = true
	}
	return nil
}

// body follows on the header.
func (f *framing) body() error {
	switch {
	case f.last:
		f.state = ended
	case f.coded:
		f.state = inChunkSize
	case f.length > 0:
		f.state, f.left = inBody, f.length
	default:
		f.state = inRequestLine
	}
	return nil
}

// chunk takes in the line before a chunk.
func (f *framing) chunk(line string) error {
	size, _, _ := strings.Cut(line, ";")
	size = strings.TrimRight(size, " \t")
	left, err := strconv.ParseUint(size, 16, 63)
	if err != nil || len(size) > maxSizeHex || len(line) > maxChunkLine || size[0] == '+' {
		return errChunk
	}
	f.state, f.left = inChunk, int64(left) //nolint:gosec // of 63 bits
	if left == 0 {
		f.state = inTrailer
	}
	return nil
}
