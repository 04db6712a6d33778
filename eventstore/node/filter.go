package node

import (
	"bytes"
	"regexp"

	"carillon/eventstore/node/internal/store"
)

// filter decides which events of $all a reader wants, by stream name or event type.
type filter struct {
	byType   bool
	prefixes [][]byte
	pattern  *regexp.Regexp
}

// maxPattern bounds the regular expressions of clients; RE2 matches in linear time, but compiling takes memory.
const maxPattern = 16 << 10

// newFilter builds a filter from a client's expression: prefixes, or else a regular expression.
func newFilter(byType bool, prefixes []string, pattern string) (*filter, error) {
	f := &filter{byType: byType}
	switch {
	case len(prefixes) > 0 && pattern != "":
		return nil, invalid("a filter has prefixes or a regular expression, not both")
	case len(prefixes) > 0:
		for _, prefix := range prefixes {
			f.prefixes = append(f.prefixes, []byte(prefix))
		}
	case pattern == "":
		return nil, invalid("a filter needs prefixes or a regular expression")
	case len(pattern) > maxPattern:
		return nil, invalid("the filter's regular expression is too long")
	default:
		compiled, err := regexp.Compile(pattern)
		if err != nil {
			return nil, invalid("the filter's regular expression is not one of RE2: " + err.Error())
		}
		f.pattern = compiled
	}
	return f, nil
}

// matches reports whether the reader wants the event; a nil filter wants all.
func (f *filter) matches(record store.Record) (bool, error) {
	if f == nil {
		return true, nil
	}
	name, eventType, err := record.Names()
	if err != nil {
		return false, err
	}
	if f.byType {
		name = eventType
	}
	if f.pattern != nil {
		return f.pattern.Match(name), nil
	}
	for _, prefix := range f.prefixes {
		if bytes.HasPrefix(name, prefix) {
			return true, nil
		}
	}
	return false, nil
}
