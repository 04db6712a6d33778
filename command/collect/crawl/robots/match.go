package robots

import (
	"bytes"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// matches reports whether the pattern matches the path from its beginning. "*" stands for any octets, a "$" at the end
// for the end of the path.
func matches(pattern, path string) bool {
	anchored := strings.HasSuffix(pattern, "$")
	pattern = strings.TrimSuffix(pattern, "$")
	pieces := strings.Split(pattern, "*")
	if !strings.HasPrefix(path, pieces[0]) {
		return false
	}
	rest := path[len(pieces[0]):]
	if len(pieces) == 1 {
		return !anchored || rest == ""
	}
	// The leftmost match of each piece leaves the most for the following ones.
	for _, piece := range pieces[1 : len(pieces)-1] {
		i := strings.Index(rest, piece)
		if i < 0 {
			return false
		}
		rest = rest[i+len(piece):]
	}
	last := pieces[len(pieces)-1]
	if anchored {
		return strings.HasSuffix(rest, last)
	}
	return strings.Contains(rest, last)
}

const upperHex = "0123456789ABCDEF"

// normalise returns the same octets for all spellings of a path: other characters than ASCII are escaped, escapes are
// in upper case, and unreserved characters are not escaped (RFC 9309, section 2.2.2).
func normalise(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '%' && i+2 < len(s) && isHex(s[i+1]) && isHex(s[i+2]):
			octet := unhex(s[i+1])<<4 | unhex(s[i+2])
			i += 2
			if isUnreserved(octet) {
				b.WriteByte(octet)
			} else {
				escape(&b, octet)
			}
		case c >= utf8.RuneSelf:
			escape(&b, c)
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

func escape(b *strings.Builder, octet byte) {
	b.WriteByte('%')
	b.WriteByte(upperHex[octet>>4])
	b.WriteByte(upperHex[octet&15])
}

func isUnreserved(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte("-._~", c) >= 0
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c <= '9':
		return c - '0'
	case c <= 'F':
		return c - 'A' + 10
	default:
		return c - 'a' + 10
	}
}

// decode removes a byte order mark; files in UTF-16 exist.
func decode(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte{0xEF, 0xBB, 0xBF}):
		return string(data[3:])
	case bytes.HasPrefix(data, []byte{0xFF, 0xFE}):
		return decode16(data[2:], 0)
	case bytes.HasPrefix(data, []byte{0xFE, 0xFF}):
		return decode16(data[2:], 1)
	}
	return string(data)
}

// decode16 reads UTF-16; low is the index of the low octet in each pair.
func decode16(data []byte, low int) string {
	units := make([]uint16, 0, len(data)/2)
	for i := 0; i+1 < len(data); i += 2 {
		units = append(units, uint16(data[i+low])|uint16(data[i+1-low])<<8)
	}
	return string(utf16.Decode(units))
}
