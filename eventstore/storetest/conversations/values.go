package conversations

import (
	"bytes"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// values are what the placeholders of one replay stand for.
type values struct {
	run       string
	ids       map[string]string
	positions map[int]uint64
}

func newValues() *values {
	return &values{
		run: strings.ReplaceAll(uuid.NewString(), "-", "")[:12],
		ids: map[string]string{}, positions: map[int]uint64{},
	}
}

var (
	placeholder = regexp.MustCompile(`\$\{(run|id:[^}]*|p\d+)\}`)
	position    = regexp.MustCompile(`^\$\{p(\d+)\}$`)
)

// expand replaces the placeholders in all texts of a tree. Positions that are not bound yet stay.
func (v *values) expand(tree any) any {
	switch tree := tree.(type) {
	case string:
		return placeholder.ReplaceAllStringFunc(tree, v.value)
	case []any:
		list := make([]any, len(tree))
		for i, item := range tree {
			list[i] = v.expand(item)
		}
		return list
	case map[string]any:
		fields := make(map[string]any, len(tree))
		for name, value := range tree {
			fields[name] = v.expand(value)
		}
		return fields
	}
	return tree
}

func (v *values) value(text string) string {
	name := text[2 : len(text)-1]
	switch {
	case name == "run":
		return v.run
	case strings.HasPrefix(name, "id:"):
		if v.ids[name] == "" {
			v.ids[name] = uuid.NewString()
		}
		return v.ids[name]
	}
	number, _ := strconv.Atoi(name[1:]) // digits
	if bound, ok := v.positions[number]; ok {
		return strconv.FormatUint(bound, 10)
	}
	return text
}

// differenceError is the first field in which an answer is not the expected one.
type differenceError struct {
	path               string
	expected, received any
}

// Error implements error.
func (e *differenceError) Error() string {
	return fmt.Sprintf("at %s: expected %s, received %s", strings.TrimPrefix(e.path, "."), shown(e.expected),
		shown(e.received))
}

const maxShown = 300

func shown(value any) string {
	if value == nil {
		return "nothing"
	}
	text := fmt.Sprint(value)
	if bytes, ok := value.(content); ok {
		text = strconv.Quote(string(bytes))
	}
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	return text
}

// match compares a received tree with the expected one, and binds the positions in it. It returns a differenceError.
func (v *values) match(path string, expected, received any) error {
	different := &differenceError{path, expected, received}
	if received == nil {
		return different
	}
	if expected == "${any}" {
		return nil
	}
	switch want := expected.(type) {
	case map[string]any:
		got, ok := received.(map[string]any)
		if !ok {
			return different
		}
		return v.matchFields(path, want, got)
	case []any:
		got, ok := received.([]any)
		if !ok {
			return different
		}
		for i := range max(len(want), len(got)) {
			if err := v.match(fmt.Sprintf("%s[%d]", path, i), at(want, i), at(got, i)); err != nil {
				return err
			}
		}
		return nil
	case string:
		if !v.matchText(want, received) {
			return different
		}
		return nil
	}
	if expected != received {
		return different
	}
	return nil
}

// at returns an item of a list, or nil after its end.
func at(list []any, i int) any {
	if i < len(list) {
		return list[i]
	}
	return nil
}

func (v *values) matchFields(path string, want, got map[string]any) error {
	names := make([]string, 0, len(want)+len(got))
	for name := range want {
		names = append(names, name)
	}
	for name := range got {
		if _, ok := want[name]; !ok {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		expected, ok := want[name]
		if !ok {
			return &differenceError{path + "." + name, nil, got[name]}
		}
		if err := v.match(path+"."+name, expected, got[name]); err != nil {
			return err
		}
	}
	return nil
}

func (v *values) matchText(want string, received any) bool {
	want, _ = v.expand(want).(string)
	switch got := received.(type) {
	case content:
		expected, err := parseBytes(want)
		return err == nil && bytes.Equal(expected, got)
	case string:
		number, err := strconv.ParseUint(got, 10, 64)
		if want == "${ticks}" {
			return err == nil && number > 0
		}
		if unbound := position.FindStringSubmatch(want); unbound != nil {
			index, _ := strconv.Atoi(unbound[1]) // digits
			return err == nil && v.bind(index, number)
		}
		return want == got
	}
	return false
}

// bind reports whether a position ascends with its number, as the others do.
func (v *values) bind(index int, bound uint64) bool {
	for other, at := range v.positions {
		if other < index != (at < bound) {
			return false
		}
	}
	v.positions[index] = bound
	return true
}
