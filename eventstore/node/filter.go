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

const (
	// maxPattern is the length of a regular expression. Package regexp bounds what repetitions make of it.
	maxPattern     = 1 << 10
	maxPrefixes    = 1 << 10
	maxPrefixBytes = 64 << 10 // of all together
)

// newFilter builds a filter from a client's expression: prefixes, or else a regular expression.
func newFilter(byType bool, prefixes []string, pattern string) (*filter, error) {
	f := &filter{byType: byType}
	size := 0
	for _, prefix := range prefixes {
		f.prefixes = append(f.prefixes, []byte(prefix))
		size += len(prefix)
	}
	switch {
	case len(prefixes) > 0 && pattern != "":
		return nil, invalid("a filter has prefixes or a regular expression, not both")
	case len(prefixes) > maxPrefixes || size > maxPrefixBytes:
		return nil, invalid("the filter has too many prefixes, or too long ones: at most 1,024 of together 64 KiB")
	case len(prefixes) == 0 && pattern == "":
		return nil, invalid("a filter needs prefixes or a regular expression")
	case len(pattern) > maxPattern:
		return nil, invalid("the filter's regular expression is too long: at most 1 KiB; use prefixes")
	case pattern == "":
		return f, nil
	}
	var err error
	if f.pattern, err = regexp.Compile(pattern); err != nil {
		return nil, invalid("the filter's regular expression is not one of RE2: " + err.Error())
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
