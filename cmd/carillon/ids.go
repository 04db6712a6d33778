package main

import (
	"fmt"
	"strings"

	"github.com/google/uuid"
)

// anID is a UUID on the command line.
type anID uuid.UUID

// UnmarshalText reads a whole id.
func (i *anID) UnmarshalText(text []byte) error {
	parsed, err := uuid.Parse(string(text))
	if err != nil {
		return notAnID(string(text))
	}
	*i = anID(parsed)
	return nil
}

// UUID is the id.
func (i anID) UUID() uuid.UUID { return uuid.UUID(i) }

// idStart is an id, or a prefix that only it has.
type idStart string

const idLength = 36

// UnmarshalText reads an id or its beginning.
func (s *idStart) UnmarshalText(text []byte) error {
	start := strings.ToLower(string(text))
	if _, err := uuid.Parse(start); len(start) == idLength && err != nil || len(start) > idLength ||
		start == "" || strings.Trim(start, "0123456789abcdef-") != "" {
		return notAnID(string(text))
	}
	*s = idStart(start)
	return nil
}

func notAnID(text string) error {
	return fmt.Errorf("%q is not an id, which looks like %s", text, "0d000000-0000-4000-8000-000000000001")
}

// find is the one id of a list that begins like this. A whole id needs no list. what says what they are ids of, and
// shown is the command that lists them.
func (s idStart) find(what, shown string, list func() ([]uuid.UUID, error)) (uuid.UUID, error) {
	if len(s) == idLength {
		return uuid.Parse(string(s))
	}
	ids, err := list()
	if err != nil {
		return uuid.Nil, err
	}
	var found []uuid.UUID
	for _, id := range ids {
		if strings.HasPrefix(id.String(), string(s)) {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return uuid.Nil, fmt.Errorf("no %s has an id that begins with %s: \"carillon %s\" shows them", what, s, shown)
	case 1:
		return found[0], nil
	}
	return uuid.Nil, fmt.Errorf("%s begins the ids of %d %ss: give more of it", s, len(found), what)
}
