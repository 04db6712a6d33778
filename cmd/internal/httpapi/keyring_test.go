package httpapi

import (
	"context"
	"errors"
	"testing"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

// shaky finds every key, and panics at the first question.
type shaky struct{ asked int }

func (s *shaky) FindKeys(_ context.Context, ids []string, _ time.Time) (found []query.Key, err error) {
	if s.asked++; s.asked == 1 {
		panic("planted")
	}
	for _, id := range ids {
		found = append(found, query.Key{ID: id})
	}
	return found, nil
}

// A question about keys that panics is answered with an error, and the next one is asked.
func TestKeyring_survivesAPanic(t *testing.T) {
	t.Parallel()
	k := newKeyring(&shaky{}, time.Now)
	if _, err := k.ask(t.Context(), "a", time.Now()); err == nil {
		t.Error("a panic is answered with a key")
	} else if _, panicked := errors.AsType[*panics.Error](err); !panicked {
		t.Error(err)
	}
	assert.Equal(t, must.Get(k.ask(t.Context(), "a", time.Now()))(t).ID, "a", "the next question")
}

// partly finds the key "a", and can't say of others.
type partly struct{}

func (partly) FindKeys(context.Context, []string, time.Time) ([]query.Key, error) {
	return []query.Key{{ID: "a"}}, eventstore.ErrUnavailable
}

// A key that can't be looked up does not keep those from working that were asked for with it.
func TestKeyring_partOfAnAnswer(t *testing.T) {
	t.Parallel()
	k := newKeyring(partly{}, time.Now)
	for id, want := range map[string]error{"a": nil, "b": eventstore.ErrUnavailable} {
		assert.Is(t, assert.Err(k.ask(t.Context(), id, time.Now())), want, "key %s", id)
	}
}
