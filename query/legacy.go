package query

import "bytes"

// The legacy shape has the members of the current one, in the same order, with null for unknown values that the
// current one omits. After the mandatory members it has two more: the type of the source, and the time of publication
// there, which is always unknown.

// lastOfAlways is the last mandatory member.
const lastOfAlways = "geoLocations"

// optional lists the members after it, in the order in which aggregates/item/shape renders them.
var optional = [...]string{"shortDescription", "time", "location", "capacity", "organizer", "primaryImage",
	"primaryUrl"}

// appendLegacy appends an item in the legacy shape, without its closing brace, given its stored current shape, also
// without the closing brace, and the source block.
func appendLegacy(to, current, source []byte) []byte {
	rest := current[1:]
	for name := []byte(nil); len(rest) > 0 && string(name) != lastOfAlways; {
		name, _, rest = cut(rest)
	}
	to = append(to, bytes.TrimSuffix(current[:len(current)-len(rest)], []byte(","))...)
	_, sourceType, _ := cut(source[1:])
	to = append(append(append(to, `,"sourceType":`...), sourceType...), `,"publishedAt":null`...)
	name, value, after := cut(rest)
	for _, known := range optional {
		to = append(append(append(to, `,"`...), known...), `":`...)
		if string(name) != known {
			to = append(to, "null"...)
			continue
		}
		to = append(to, value...)
		name, value, after = cut(after)
	}
	return to
}

// cut cuts the first member off an object's members, as encoding/json writes them. The name is empty if there is
// none.
func cut(members []byte) (name, value, rest []byte) {
	if len(members) == 0 {
		return nil, nil, nil
	}
	colon := stringEnd(members, 0)
	name, value = members[1:colon-1], members[colon+1:]
	depth := 0
	for i := 0; i < len(value); i++ {
		switch value[i] {
		case '"':
			i = stringEnd(value, i) - 1
		case '{', '[':
			depth++
		case '}', ']':
			if depth--; depth < 0 { // of the object
				return name, value[:i], nil
			}
		case ',':
			if depth == 0 {
				return name, value[:i], value[i+1:]
			}
		}
	}
	return name, value, nil
}

// stringEnd returns the place after the string that begins at a place.
func stringEnd(data []byte, begin int) int {
	for i := begin + 1; ; i++ {
		quote := bytes.IndexByte(data[i:], '"')
		if quote < 0 {
			return len(data)
		}
		i += quote
		escapes := 0
		for data[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}
