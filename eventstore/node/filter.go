package node

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"sync"

	"google.golang.org/grpc/codes"

	"carillon/eventstore/node/internal/store"
)

// filter decides which events of $all a reader wants, by stream name or event type.
type filter struct {
	byType   bool
	prefixes [][]byte
	pattern  *regexp.Regexp
	weight   int
	of       *filters
}

// Clients say what filters are, so what these take is bounded: of each, and of all that are in use.
const (
	maxPattern       = 4 << 10 // bytes of a regular expression
	maxPatternSteps  = 10_000  // of its program: repetitions of repetitions become many
	stepBytes        = 200     // that a step takes: in the program, and while it runs
	maxPatternRanges = 50_000  // of its classes, such as those of Unicode
	rangeBytes       = 4
	maxPrefixes      = 1 << 10  // of one filter
	maxPrefixBytes   = 64 << 10 // in all of them
	prefixBytes      = 32       // that one takes besides its own
	maxFilters       = 2 << 10  // in use at once
	maxFilterBytes   = 32 << 20 // that they take together
)

// filters counts the filters of the reads and subscriptions in flight.
type filters struct {
	mu    sync.Mutex
	count int
	bytes int
}

// admit counts a filter in, unless there are too many.
func (f *filters) admit(admitted *filter) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.count >= maxFilters || f.bytes+admitted.weight > maxFilterBytes {
		return failure(codes.ResourceExhausted, "the filters of all reads and subscriptions take too much memory; use fewer, or prefixes")
	}
	f.add(admitted)
	return nil
}

// keep counts a filter in that was admitted before.
func (f *filters) keep(admitted *filter) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.add(admitted)
}

func (f *filters) add(admitted *filter) {
	f.count++
	f.bytes += admitted.weight
	admitted.of = f
}

// release gives back what a filter takes. A nil filter takes nothing.
func (f *filter) release() {
	if f == nil || f.of == nil {
		return
	}
	f.of.mu.Lock()
	defer f.of.mu.Unlock()
	f.of.count--
	f.of.bytes -= f.weight
	f.of = nil
}

// newFilter builds a filter from a client's expression: prefixes, or else a regular expression.
func newFilter(byType bool, prefixes []string, pattern string) (*filter, error) {
	size := 0
	for _, prefix := range prefixes {
		size += len(prefix)
	}
	switch {
	case len(prefixes) > 0 && pattern != "":
		return nil, invalid("a filter has prefixes or a regular expression, not both")
	case len(prefixes) > maxPrefixes || size > maxPrefixBytes:
		return nil, invalid("the filter has too many prefixes, or too long ones")
	case len(prefixes) == 0 && pattern == "":
		return nil, invalid("a filter needs prefixes or a regular expression")
	case len(pattern) > maxPattern:
		return nil, invalid("the filter's regular expression is too long")
	}
	if pattern != "" {
		parsed, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return nil, notRE2(err)
		}
		if steps, ranges := expense(parsed); steps > maxPatternSteps || ranges > maxPatternRanges {
			return nil, invalid("the filter's regular expression is too large, with all its repetitions")
		}
	}
	return storedFilter(byType, prefixes, pattern)
}

func notRE2(err error) error {
	return invalid("the filter's regular expression is not one of RE2: " + err.Error())
}

// storedFilter is newFilter for one that was accepted before, perhaps by a version with other bounds.
func storedFilter(byType bool, prefixes []string, pattern string) (*filter, error) {
	f := &filter{byType: byType}
	for _, prefix := range prefixes {
		f.prefixes = append(f.prefixes, []byte(prefix))
		f.weight += len(prefix) + prefixBytes
	}
	if pattern == "" {
		return f, nil
	}
	parsed, err := syntax.Parse(pattern, syntax.Perl)
	if err != nil {
		return nil, notRE2(err)
	}
	if f.pattern, err = regexp.Compile(pattern); err != nil {
		return nil, notRE2(err)
	}
	steps, ranges := expense(parsed)
	f.weight = steps*stepBytes + ranges*rangeBytes
	return f, nil
}

// expense is about how many steps the program of a regular expression has, and how many bounds of ranges the classes
// in it; or any numbers above what is allowed.
func expense(parsed *syntax.Regexp) (steps, ranges int) {
	steps = 1
	switch parsed.Op {
	case syntax.OpLiteral:
		steps += len(parsed.Rune)
	case syntax.OpCharClass: // repeated, it is there once
		ranges = len(parsed.Rune)
	default:
		for _, part := range parsed.Sub {
			more, wider := expense(part)
			if steps, ranges = steps+more, ranges+wider; steps > maxPatternSteps || ranges > maxPatternRanges {
				return steps, ranges
			}
		}
	}
	if parsed.Op == syntax.OpRepeat {
		steps *= max(parsed.Min, parsed.Max, 1)
	}
	return steps, ranges
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
