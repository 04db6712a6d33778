package front

import (
	"bytes"
	"errors"
	"strconv"
	"strings"
)

// What is wrong with the framing of a request. net/http answers each with 400 and closes the connection.
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
	maxLine      = maxHeaderBytes + 8<<10 // bytes; net/http gives up before
	maxChunkLine = 4 << 10                // bytes of a chunk's size with its extensions
	maxSizeHex   = 15                     // digits of a chunk's size
)

// framing follows the bytes of one connection from request to request, as RFC 9112 parts them.
type framing struct {
	state  state
	line   []byte // what has come of the present line
	left   int64  // bytes of the present body or chunk that are to come
	length int64  // as the header says; -1: it does not
	coded  bool   // the body comes in chunks
	old    bool   // HTTP/1.0
	last   bool   // net/http closes the connection after this request
}

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

// follow takes in the next bytes. good is how many of them may be read by others: all, or where they are not well formed
// those before the request that is not.
func (f *framing) follow(p []byte) (good int, err error) {
	for at := 0; at < len(p); {
		if f.state == inRequestLine && len(f.line) == 0 {
			good = at // the requests before are whole
		}
		n, err := f.step(p[at:])
		if err != nil {
			return good, err
		}
		at += n
	}
	return len(p), nil
}

// step takes in the rest of a line or of a body.
func (f *framing) step(p []byte) (int, error) {
	switch f.state {
	case inBody, inChunk:
		n := min(int64(len(p)), f.left)
		if f.left -= n; f.left == 0 {
			f.state = map[state]state{inBody: inRequestLine, inChunk: inChunkEnd}[f.state]
		}
		return int(n), nil
	case ended:
		return 0, errAfterLast
	case inRequestLine, inHeader, inChunkSize, inChunkEnd, inTrailer:
	}
	end := bytes.IndexByte(p, '\n')
	if end < 0 {
		if len(f.line)+len(p) > maxLine {
			return 0, errLongLine
		}
		f.line = append(f.line, p...)
		return len(p), nil
	}
	line := p[:end]
	if len(f.line) > 0 {
		line = append(f.line, line...)
	}
	err := f.whole(line)
	f.line = f.line[:0]
	return end + 1, err
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
		*f = framing{line: f.line, state: inHeader, length: -1, old: strings.HasSuffix(text, " HTTP/1.0")}
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
