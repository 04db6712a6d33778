package webhook

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding/htmlindex"
)

// answerText returns the stored text of an answer: decompressed if it is compressed although not asked for, decoded
// from its declared charset, with secrets concealed, and cut. Data that can't be decompressed is replaced by a note.
func answerText(raw []byte, header http.Header, conceal func() *concealer) string {
	if len(raw) == 0 {
		return ""
	}
	plain, ok := decompress(raw, header.Get("Content-Encoding"))
	if !ok {
		return fmt.Sprintf("[%d bytes of an answer in content-encoding %s, which was not asked for]",
			len(raw), shorten(header.Get("Content-Encoding"), 40))
	}
	plain = decode(plain, header.Get("Content-Type"))
	if c := conceal(); c != nil {
		plain = []byte(c.replace(string(plain)))
	}
	return keptText(plain)
}

// decompress returns as much as is kept of a compressed body, so that a small one can't unfold to a huge one.
func decompress(raw []byte, encoding string) (plain []byte, ok bool) {
	var (
		reader io.Reader
		err    error
	)
	switch strings.ToLower(strings.TrimSpace(encoding)) {
	case "", "identity":
		return raw, true
	case "gzip", "x-gzip":
		reader, err = gzip.NewReader(bytes.NewReader(raw))
	case "deflate":
		reader, err = zlib.NewReader(bytes.NewReader(raw))
	default:
		return nil, false
	}
	if err != nil {
		return nil, false
	}
	plain, err = io.ReadAll(io.LimitReader(reader, readBytes))
	return plain, err == nil || len(plain) > 0 // a body that was cut gives what its beginning holds
}

// decode returns a text in UTF-8. One in an undeclared or unknown charset is not changed.
func decode(raw []byte, contentType string) []byte {
	if !strings.Contains(contentType, ";") {
		return raw
	}
	_, params, err := mime.ParseMediaType(contentType)
	if err != nil || params["charset"] == "" {
		return raw
	}
	charset, err := htmlindex.Get(params["charset"])
	if err != nil {
		return raw
	}
	if name, err := htmlindex.Name(charset); err != nil || name == "utf-8" || name == "replacement" {
		return raw
	}
	text, err := charset.NewDecoder().Bytes(raw)
	if err != nil || !utf8.Valid(text) {
		return raw
	}
	return text
}

// The headers of an answer that are kept: characters of one line, and of all.
const (
	maxHeaderLine = 500
	maxHeaders    = 4_000
)

// shownHeaders returns the headers of an answer by name, a line for each value. Cookies and the secrets of the
// destination are masked.
func shownHeaders(header http.Header, hide *concealer) string {
	var text strings.Builder
	for _, name := range slices.Sorted(maps.Keys(header)) {
		for _, value := range header[name] {
			if name == "Set-Cookie" {
				value = concealed
			}
			line := shorten(strings.ToLower(name)+": "+hide.replace(value), maxHeaderLine) + "\n"
			if text.Len()+len(line) > maxHeaders {
				text.WriteString("…\n")
				return keptText([]byte(text.String()))
			}
			text.WriteString(line)
		}
	}
	return keptText([]byte(text.String()))
}
